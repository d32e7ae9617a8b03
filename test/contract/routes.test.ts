import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type ErrorCode, errorKinds } from '../../src/contract/errors.js';
import { jobIdPattern, jobStates } from '../../src/contract/job.js';
import {
  appConfigPath,
  appPath,
  commonErrors,
  jobEnvelope,
  jobIdOf,
  jobPath,
  killPath,
  logsPath,
  logTextPath,
  type Route,
  resultPath,
  routeNames,
  routes,
  submitPath,
  unroutedErrors,
  uploadLocation,
  uploadPath,
  withoutResult,
} from '../../src/contract/routes.js';

interface Documented {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string }[];
  readonly responses: Readonly<Record<string, unknown>>;
}

const { paths } = JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8')) as {
  paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>;
};

const documented = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, row]) => ({ route: `${method.toUpperCase()} ${path}`, row })),
);

const routeOf = (name: (typeof routeNames)[number]): Route => routes[name];

describe('the table of routes', () => {
  test('The table of routes lists every error exactly once', () => {
    const given = new Set<ErrorCode>([...commonErrors, ...unroutedErrors]);
    for (const name of routeNames) {
      const { errors } = routeOf(name);
      expect(new Set([...errors, ...commonErrors]).size, name).toBe(errors.length + commonErrors.length);
      for (const code of errors) given.add(code);
    }
    expect([...given].sort()).toEqual(Object.keys(errorKinds).sort());
  });

  test('The table of routes has a status for a result in every state', () => {
    const states = jobStates.filter((state) => state !== 'done');
    expect(Object.keys(withoutResult)).toEqual(states);
    for (const state of states)
      expect(Object.keys(routes.result.answers)).toContain(String(withoutResult[state]));
  });
});

describe('docs/openapi.json', () => {
  test('docs/openapi.json has exactly the rows of the table', () => {
    const rows = routeNames.map((name) => [name, `${routes[name].method} ${routes[name].path}`]);
    // The rows of one path stand together there.
    expect(documented.map(({ route, row }) => [row.operationId, route]).sort()).toEqual(rows.sort());
  });

  test.for(routeNames)('docs/openapi.json has the parameters and all statuses of %s', (name) => {
    const { path, parameters = [], answers, errors } = routeOf(name);
    const row = documented.find((each) => each.row.operationId === name)?.row;
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter);
    expect(row?.parameters.map((each) => each.name)).toEqual([
      ...inPath,
      ...parameters.map((each) => each.name),
    ]);
    const statuses = [...commonErrors, ...errors].map((code) => String(errorKinds[code].status));
    expect(new Set(Object.keys(row?.responses ?? {}))).toEqual(
      new Set([...Object.keys(answers), ...statuses]),
    );
  });
});

test('An identifier in a path is percent-encoded, except for slashes that are safe', () => {
  expect(appPath('VBoussot/ImpactSynth:MR')).toBe('/repo_apps/VBoussot/ImpactSynth%3AMR');
  expect(appPath('a/../b')).toBe('/repo_apps/a%2F..%2Fb');
  expect(appConfigPath('$&')).toBe('/repo_apps_config/%24%26');
  expect(submitPath('/srv/apps/Tiny', 'infer')).toBe('/apps//srv/apps/Tiny/infer');
  expect(logsPath('0123456789ab')).toBe('/jobs/0123456789ab/logs');
});

test('The paths of a job and of an upload have its name', () => {
  expect([jobPath, logsPath, logTextPath, resultPath, killPath].map((path) => path('a/b'))).toEqual([
    '/jobs/a%2Fb',
    '/jobs/a%2Fb/logs',
    '/jobs/a%2Fb/log',
    '/jobs/a%2Fb/result',
    '/jobs/a%2Fb/kill',
  ]);
  expect([uploadPath('0f'), uploadLocation('0f')]).toEqual(['/uploads/0f', 'uploads/0f']);
});

test('The id of a job has twelve hexadecimal digits', () => {
  const ids = ['0123456789ab', '0123456789abc', '0123456789a', '0123456789aB', '0123456789ag'];
  expect(ids.map((id) => jobIdPattern.test(id))).toEqual([true, false, false, false, false]);
});

test.each([
  ['/jobs/0123456789ab', '0123456789ab'],
  ['/jobs/0123456789ab/logs?since=3', '0123456789ab'],
  ['/jobs/0123456789ab?x', '0123456789ab'],
  ['/jobs', undefined],
  ['/jobs/', undefined],
  ['/x/jobs/0123456789ab', undefined],
])('The id of the job in %s is %j', (path, id) => {
  expect(jobIdOf(path)).toBe(id);
});

test('The envelope of a job has its paths, and the options that were read, sorted by name', () => {
  const options = ['tta', 'batch_size', 'patch_size'];
  expect(jobEnvelope('0123456789ab', options)).toEqual({
    job_id: '0123456789ab',
    status_url: '/jobs/0123456789ab',
    logs_url: '/jobs/0123456789ab/logs',
    result_url: '/jobs/0123456789ab/result',
    accepted_options: ['batch_size', 'patch_size', 'tta'],
  });
  expect(options).toEqual(['tta', 'batch_size', 'patch_size']);
});
