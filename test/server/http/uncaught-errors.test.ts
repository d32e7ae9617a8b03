import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../../support/until.mjs';

const program = fileURLToPath(new URL('../../fixtures/programs/falling-server.mjs', import.meta.url));
let child: ChildProcess;
let url = '';
let stderr = '';

beforeAll(async () => {
  child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const [port] = await once(child.stdout ?? child, 'data');
  url = `http://127.0.0.1:${String(port).trim()}`;
});

afterAll(async () => {
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
});

const isServing = async () => expect(await (await fetch(`${url}/fine`)).text()).toBe('fine');

const isReported = (line: string) => until(`'${line}' is reported`, () => stderr.includes(line));

describe('an error that nothing catches', () => {
  test.for([
    ['/timer', 'in a timer'],
    ['/tick', 'in a tick'],
    ['/promise', 'in a promise'],
    ['/nothing', 'undefined'],
  ])('An uncaught error is reported, and ends its own request with 500: %s', async ([path = '', message]) => {
    const response = await fetch(url + path);
    expect([response.status, await response.json()]).toEqual([500, { detail: 'Internal server error' }]);
    await isReported(`GET ${path} failed with an uncaught error: ${message}`);
    await isServing();
  });

  test('An uncaught error after the head of the answer cuts the connection, so that the answer does not look complete', async () => {
    const response = await fetch(`${url}/begun`);
    await expect(response.text()).rejects.toThrow();
    await isServing();
  });

  test('An uncaught error outside of any request ends no request', async () => {
    expect(await (await fetch(`${url}/outside`)).text()).toBe('unharmed');
    await isReported('Something outside of any request failed with an uncaught error: outside of requests');
    await isServing();
    expect(child.exitCode).toBeNull();
  });
});
