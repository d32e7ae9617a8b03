import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { until } from '../../support/until.mjs';
import { TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';

const listLoaded = fileURLToPath(new URL('../fixtures/programs/list-loaded.cjs', import.meta.url));

/**
 * Parts of Node that take long to load, and who would load them: Koa for the body of any answer, what asks for the time,
 * what has no token to check, what reads no earlier usage, metrics that nobody pushes, streams that nobody compresses.
 */
const dear = [
  'internal/deps/undici/undici',
  'perf_hooks',
  'crypto',
  'readline',
  'https',
  'tls',
  'zlib',
  'assert',
];

/** Files of the bundle, by the beginnings of their names, that only clients need. */
const ofClients = ['answers-', 'connection-', 'transfer-', 'reach-'];

test('until its first answer, a server loads nothing dear that the answer does not need', async () => {
  await using place = await temporary();
  const list = path.join(place.path, 'loaded.json');
  await using server = await TestServer.start({
    // A spare runner gets a random name, which needs `crypto`, at no certain time.
    flags: ['--spare-runners', '0'],
    node: ['--require', listLoaded],
    environment: { LOADED_FILE: list },
  });
  const answer = await fetch(`${server.url}/health`);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(await answer.json()).toEqual({ status: 'ok' });

  server.signal('SIGUSR2');
  await until('the server has listed what it has loaded', () => existsSync(list));
  const loaded = JSON.parse(readFileSync(list, 'utf8')) as string[];
  expect(loaded).toContain('NativeModule http');
  expect(dear.filter((name) => loaded.includes(`NativeModule ${name}`))).toEqual([]);

  const files = loaded.filter((name) => path.isAbsolute(name)).map((file) => path.basename(file));
  expect(files).toContainEqual(expect.stringMatching(/^serve-until-stopped-/));
  expect(files.filter((file) => ofClients.some((each) => file.startsWith(each)))).toEqual([]);
});
