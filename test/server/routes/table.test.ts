import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { errorKinds } from '../../../src/contract/errors.js';
import {
  commonErrors,
  type Route,
  type RouteName,
  routeNames,
  routes,
} from '../../../src/contract/routes.js';
import { createRouter, type RouteDeps } from '../../../src/server/routes/index.js';
import { least } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';

const server = sharedServer({ gpus: 1, flags: ['--metrics'] });
const { api } = server;

const routeOf = (name: RouteName): Route => routes[name];

/** The address of a route, for an app and a job. */
const addressOf = (name: RouteName, id = '0123456789ab') =>
  routes[name].path.replace('{app}', 'probe').replace('{id}', id).replace('{sha256}', 'f'.repeat(64));

describe('the router', () => {
  // The routes use their dependencies only when they are called.
  const { stack } = createRouter({} as RouteDeps);

  test('The router has the rows of the table, and no others', () => {
    expect(stack.map(({ name }) => name)).toEqual(routeNames);
    for (const { name, methods } of stack) {
      const { method } = routes[name as RouteName];
      expect(methods.filter((each) => each !== 'HEAD' || method === 'HEAD')).toEqual([method]);
    }
  });
});

describe('the service', () => {
  test.for(routeNames)('The service answers %s with a status of its row', async (name) => {
    const { method, answers, errors } = routeOf(name);
    const response = await api.fetch(addressOf(name), { method });
    const statuses = [...commonErrors, ...errors].map((code) => errorKinds[code].status);
    expect([...Object.keys(answers).map(Number), ...statuses]).toContain(response.status);
    expect(await response.text()).not.toMatch(/There is no|does not take/);
  });

  test.for(routeNames)('The service takes no other method for %s', async (name) => {
    const response = await api.fetch(addressOf(name), { method: 'PUT' });
    const allowed = response.headers.get('allow')?.split(', ').sort();
    const atThisPath = routeNames.map(routeOf).filter(({ path }) => path === routes[name].path);
    const known = atThisPath.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    expect([response.status, allowed]).toEqual([405, known.sort()]);
  });
});

/** What a proxy with a rule for one path lets through, and a server might read as that path. */
const disguises: Readonly<Record<string, (path: string) => string>> = {
  'in capitals': (path) => path.toUpperCase(),
  'with one capital': (path) => path.replace(/[a-z]/, (letter) => letter.toUpperCase()),
  'with a slash at the end': (path) => `${path}/`,
  'with two slashes at the end': (path) => `${path}//`,
  'with two slashes before it': (path) => `/${path}`,
  'with an encoded letter': (path) =>
    path.replace(/[a-z]/, (letter) => `%${Buffer.from(letter).toString('hex')}`),
  'with an encoded slash': (path) => `${path}%2F`,
  'with a line end behind it': (path) => `${path}%0A`,
  'with a parameter': (path) => `${path};x`,
  'with a dot': (path) => `/.${path}`,
  'with two dots': (path) => `/x/..${path}`,
  'with a fragment': (path) => `${path}#x`,
};

test.for(Object.keys(disguises))('No route matches a path %s', async (how) => {
  const { id } = await api.run('infer', least.infer);
  for (const name of routeNames.filter((each) => !routes[each].path.includes('{app}'))) {
    await using connection = await RawConnection.open(server.url);
    const target = disguises[how]?.(addressOf(name, id));
    // An answer to HEAD has no end that a raw connection could see.
    const method = routes[name].method === 'HEAD' ? 'GET' : routes[name].method;
    connection.write(`${method} ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect([target, (await connection.answer()).status]).toEqual([target, 404]);
  }
});

test.for([
  ['If-None-Match', '*'],
  ['If-Modified-Since', new Date(Date.now() + 86_400_000).toUTCString()],
] as const)('Only the routes that list 304 answer with it to %s', async ([name, value]) => {
  const { id } = await api.run('infer', least.infer);
  // Without this header, Node's fetch adds `Cache-Control: no-cache` to a conditional request, which asks for no 304.
  const headers = { [name]: value, 'Cache-Control': 'max-age=0' };
  const answering: RouteName[] = [];
  for (const route of routeNames.filter((each) => routes[each].method === 'GET')) {
    const response = await api.fetch(addressOf(route, id), { headers });
    const body = await response.text();
    if (response.status !== 304) continue;
    expect(body).toBe('');
    answering.push(route);
  }
  expect(answering).toContain('result');
  expect(answering).toEqual(routeNames.filter((each) => 304 in routes[each].answers));
});

interface Schema {
  readonly $ref?: string;
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
}

describe('docs/openapi.json', () => {
  const { paths, components } = JSON.parse(
    readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8'),
  );
  const resolved = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : components.schemas[schema.$ref.split('/').at(-1) ?? ''];

  /** The one media type, and the schema, of an answer. */
  function bodyOf(name: RouteName, status: number): [string, Schema] {
    const { content } = paths[routes[name].path][routes[name].method.toLowerCase()].responses[status];
    const [[type, { schema }]] = Object.entries(content) as [[string, { schema: Schema }]];
    return [type, resolved(schema)];
  }

  test('The file docs/openapi.json describes exactly the statuses of the table, and a body only for answers that have one', () => {
    for (const name of routeNames) {
      const { path, method, answers, errors } = routeOf(name);
      const { responses } = paths[path][method.toLowerCase()];
      const failures = [...commonErrors, ...errors].map((code) => errorKinds[code].status);
      const statuses = new Set([...Object.keys(answers).map(Number), ...failures]);
      expect([name, Object.keys(responses).map(Number).sort()]).toEqual([name, [...statuses].sort()]);
      const bodiless = Object.keys(responses).filter((status) => !('content' in responses[status]));
      const listed = Object.keys(answers).filter((status) => answers[Number(status)] === null);
      expect([name, bodiless]).toEqual([name, listed]);
    }
  });

  test('The file docs/openapi.json describes the answers that the service gives', async () => {
    const { id } = await api.run('infer', least.infer);
    for (const name of routeNames) {
      const { method, form, answers } = routeOf(name);
      const address = addressOf(name, id) + (name === 'vram' ? '?devices=0' : '');
      if (form && form !== 'infer') continue;
      const response = form ? await api.submit(form, least.infer) : await api.fetch(address, { method });
      // Routes of uploads answer by headers.
      if (answers[200] === undefined || answers[200] === null) continue;
      const [type, schema] = bodyOf(name, 200);
      expect([name, response.status, response.headers.get('content-type')?.split(';')[0]]).toEqual([
        name,
        200,
        type,
      ]);
      if (type !== 'application/json') {
        await response.arrayBuffer();
        continue;
      }
      const { properties = {}, required = [] } = schema.oneOf?.[0] ?? schema;
      const keys = Object.keys((await response.json()) as object);
      expect(Object.keys(properties), name).toEqual(expect.arrayContaining(keys));
      expect(keys, name).toEqual(expect.arrayContaining([...required]));
    }
  });
});
