import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import * as api from '../../../src/client/connection/api.js';
import { proxyTo } from '../../../src/client/connection/proxy.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

test('Requests with a time-out of their own use it', async () => {
  await using server = await ScriptedServer.start(() => {});
  await using connection = connectTo(server.url, { readTimeout: 60 });
  const limit = 0.05;
  const asked = [
    api.health(connection, limit),
    api.devices(connection, limit),
    api.limits(connection, limit),
    api.apps(connection, limit),
    api.appList(connection, limit),
    api.app(connection, 'x', limit),
    api.job(connection, 'ab', limit),
    api.usage(connection, { all: '1' }, limit),
  ];
  const late = { exitCode: 3, message: `${server.url} did not answer in time` };
  for (const end of await Promise.allSettled(asked)) expect(end).toMatchObject({ reason: late });
});

test('A request uses its own signal instead of that of its connection', async () => {
  await using server = await ScriptedServer.start(() => {});
  const [own, other] = [new Error('own'), new Error('other')];
  const controller = new AbortController();
  await using connection = connectTo(server.url, { signal: controller.signal });
  await expect(api.job(connection, 'ab', 60, AbortSignal.abort(own))).rejects.toBe(own);
  controller.abort(other);
  await expect(api.job(connection, 'ab')).rejects.toThrow(/other|aborted/);
  expect(server.received).toHaveLength(0);
});

test('A connection to a proxy that refuses it is closed', async () => {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  for (const name of ['no_proxy', 'NO_PROXY']) vi.stubEnv(name, undefined);
  vi.stubEnv('https_proxy', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  const transport = proxyTo(new URL('https://gpu.test'), 5, undefined);
  const refused = expect(transport?.open?.()).rejects.toMatchObject({ status: 403 });
  const [, socket] = (await once(server, 'connect')) as [unknown, Socket];
  const left = once(socket.on('error', () => {}).resume(), 'end');
  socket.write('HTTP/1.1 403 x\r\n\r\n');
  await refused;
  await left;
  socket.destroy();
  await transport?.close();
  await new Promise((resolve) => server.close(resolve));
}, 30_000);
