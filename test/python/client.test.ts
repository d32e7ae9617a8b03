import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { selfSigned } from '../support/certificates.js';
import { HttpProxy } from '../support/http-proxy.js';
import { konfaiJobId, konfaiServer } from '../support/konfai-server.js';
import { lacks } from '../support/needs.mjs';
import { freePort } from '../support/ports.mjs';
import { apps, TestServer } from '../support/server.js';
import { plant, temporary } from '../support/temporary.js';
import { zip } from '../support/zip.mjs';

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const client = here('../../python/remote_app.py');
const openapi = here('../../docs/openapi.json');
const { paths } = JSON.parse(readFileSync(openapi, 'utf8')) as {
  paths: Record<string, Record<string, { parameters?: { name: string; in: string }[] }>>;
};

/** A server with TLS, whose certificate has signed itself, before a service that it has at `/lab/remote-app`. */
async function tlsBefore(port: number, directory: string) {
  const { key, cert, file } = await selfSigned(directory, 'gpu', 'localhost');
  const server = createServer({ key, cert }, (incoming, response) => {
    const { url = '', method, headers } = incoming;
    if (!url.startsWith('/lab/remote-app/')) return void response.writeHead(418).end();
    const onward = request({ port, path: url.slice('/lab/remote-app'.length), method, headers }, (reply) => {
      response.writeHead(reply.statusCode ?? 0, reply.headers);
      reply.pipe(response);
    });
    incoming.pipe(onward);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `https://localhost:${(server.address() as AddressInfo).port}/lab/remote-app`;
  return { url, ca: file, [Symbol.asyncDispose]: async () => void server.close() };
}

/** What openapi.json does not have of a request such as `GET http://host/path`: the request itself, or words of its query. */
function undescribed(asked: string): string[] {
  const [method = '', address = ''] = asked.split(' ');
  const url = new URL(address);
  const wanted = url.pathname.split('/');
  const isOf = (template: string): boolean => {
    const parts = template.split('/');
    return (
      parts.length === wanted.length && parts.every((part, at) => /^\{/.test(part) || part === wanted[at])
    );
  };
  const [, methods] = Object.entries(paths).find(([template]) => isOf(template)) ?? [];
  const operation = methods?.[method.toLowerCase()];
  const names = operation?.parameters?.map(({ name }) => name) ?? [];
  return operation ? [...url.searchParams.keys()].filter((name) => !names.includes(name)) : [asked];
}

test.skipIf(lacks('python3', 'openssl'))(
  'The Python client passes its checks and asks only for what openapi.json describes',
  { timeout: 120_000 },
  async () => {
    await using directory = await temporary();
    await using server = await TestServer.start({ gpus: 2, token: 'secret', apps: [apps.probe] });
    const about = JSON.parse(readFileSync(path.join(apps.probe, 'app.json'), 'utf8'));
    const needs = { ...about, resources: { gpu_memory: '8192GiB' } };
    await plant(directory.path, { 'greedy/app.json': JSON.stringify(needs) });
    await using greedy = await TestServer.start({ gpus: 1, apps: [path.join(directory.path, 'greedy')] });
    const port = await freePort();
    await using mortal = await TestServer.start({ ownProcess: true, flags: ['--port', String(port)] });
    const servicePort = Number(new URL(server.url).port);
    await using tls = await tlsBefore(servicePort, directory.path);
    await using proxy = await HttpProxy.start({ port: servicePort, login: 'ana:a b' });
    const lines = ['one', 'two', 'three', 'four'];
    const result = zip([{ name: 'mask.txt', content: 'voxels' }]);
    await using konfai = await konfaiServer({ queue: [...lines, '__DONE__'], cutsAfter: 2, result });
    await using killed = await konfaiServer({ state: 'killed', queue: ['one'] });
    await using refused = await konfaiServer({ state: 'error', error: 'Error: no head', isRefused: true });
    await using silent = await konfaiServer({ losesAnswer: true });
    const facts = {
      openapi,
      page: here('../../docs/python.md'),
      directory: directory.path,
      url: server.url,
      token: server.token,
      greedy: greedy.url,
      mortal: mortal.url,
      tls: tls.url,
      ca: tls.ca,
      proxy: `http://ana:a%20b@127.0.0.1:${proxy.port}`,
      konfai: konfai.url,
      konfaiJob: konfaiJobId,
      killed: killed.url,
      refused: refused.url,
      silent: silent.url,
      lines,
    };
    const python = spawn('python3', ['-B', here('checks.py')], {
      env: {
        PATH: process.env.PATH,
        HOME: directory.path,
        PYTHONPATH: path.dirname(client),
        FACTS: JSON.stringify(facts),
      },
    });
    const errors = text(python.stderr);
    const ended = once(python, 'close');
    /** What the checks ask for while they run. */
    const requests: Record<string, () => Promise<unknown>> = {
      crash: async () => {
        await mortal.crash();
        await mortal.start();
      },
    };
    for await (const line of createInterface({ input: python.stdout })) {
      await requests[line]?.();
      python.stdin.write('\n');
    }
    const [code] = await ended;
    expect(code, await errors).toBe(0);

    expect(proxy.asked.flatMap(undescribed)).toEqual([]);
    expect(new Set(proxy.asked.map((each) => new URL(each.split(' ')[1] ?? '').host))).toEqual(
      new Set(['gpu.example.org']),
    );
    expect(proxy.asked.length).toBeGreaterThan(10);
    expect(konfai.inputs).toEqual([['ct.nii']]);
    expect(silent.inputs).toHaveLength(1);
  },
);

test('The Python client has the same version as the rest', () => {
  const { version } = JSON.parse(readFileSync(here('../../package.json'), 'utf8')) as { version: string };
  expect(readFileSync(client, 'utf8')).toContain(`\n__version__ = "${version}"\n`);
  const recipe = readFileSync(new URL('../../packaging/conda/recipe.yaml', import.meta.url), 'utf8');
  expect(recipe).toContain(`\n  version: "${version}"\n`);
});
