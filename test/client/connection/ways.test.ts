import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
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

describe('a proxy', () => {
  const stub = (env: Record<string, string>) => {
    for (const name of ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'no_proxy', 'NO_PROXY'])
      vi.stubEnv(name, env[name]);
    onTestFinished(() => void vi.unstubAllEnvs());
  };

  test('A proxy forwards requests to a server without TLS, and says which logins it accepts', () => {
    stub({ http_proxy: 'http://ana:hush@p.test:1' });
    const transport = proxyTo(new URL('http://gpu.test'), 5, undefined);
    expect(transport).toMatchObject({
      name: 'The proxy http://p.test:1 (http_proxy)',
      forward: {
        origin: 'http://p.test:1',
        headers: { 'proxy-authorization': `Basic ${Buffer.from('ana:hush').toString('base64')}` },
      },
    });
    const told = (asked: string) => transport?.loginRefused?.(asked).message;
    const refuses = 'The proxy http://p.test:1 (http_proxy) refuses the user and the password in http_proxy';
    expect([told('Basic realm="x"'), told('Negotiate, basic realm="x, y"'), told('')]).toEqual(
      Array(3).fill(refuses),
    );
    expect(told('Negotiate, NTLM')).toBe(
      'The proxy http://p.test:1 (http_proxy) asks for a login by Negotiate, NTLM, which is not supported; ask its admin for another one',
    );
    stub({ http_proxy: 'http://p.test:1' });
    const open = proxyTo(new URL('http://gpu.test'), 5, undefined);
    expect([open?.forward?.headers, open?.loginRefused?.('Basic')]).toMatchObject([
      {},
      {
        ...{ status: 407, isOfProxy: true, exitCode: 4 },
        message:
          'The proxy http://p.test:1 (http_proxy) asks for a user and a password: put them into http_proxy, as in http://USER:PASSWORD@proxy.example.org:3128',
      },
    ]);
    stub({ no_proxy: 'gpu.test', http_proxy: 'http://p.test:1' });
    expect(proxyTo(new URL('http://gpu.test'), 5, undefined)).toBeUndefined();
  });

  test('A proxy opens a tunnel to a server with TLS, or says why not', async () => {
    let status = 200;
    const asked: unknown[] = [];
    const server = createServer().on('connect', (request, socket) => {
      asked.push([request.url, request.headers.host, request.headers['proxy-authorization']]);
      socket.end(`HTTP/1.1 ${status} x\r\nproxy-authenticate: Digest realm="x"\r\n\r\n`);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    stub({ HTTPS_PROXY: origin.replace('//', '//ana:x@') });
    const name = `The proxy ${origin} (HTTPS_PROXY)`;
    const opened = async (address: string, answer: number) => {
      status = answer;
      const transport = proxyTo(new URL(address), 5, undefined);
      const end = await transport?.open?.().then(
        (socket) => void socket.destroy(),
        (error: Error) => error,
      );
      await transport?.close();
      return end;
    };
    expect([await opened('https://gpu.test', 200), await opened('https://gpu.test:8443/x', 299)]).toEqual([
      ...[undefined, undefined],
    ]);
    const authorization = `Basic ${Buffer.from('ana:x').toString('base64')}`;
    expect(asked).toEqual(['gpu.test:443', 'gpu.test:8443'].map((target) => [target, target, authorization]));
    for (const failed of [500, 502])
      expect(await opened('https://gpu.test', failed)).toMatchObject({
        ...{ fault: 'unreached', message: `${name} cannot reach gpu.test:443 (HTTP ${failed})` },
      });
    expect(await opened('https://gpu.test', 499)).toMatchObject({ status: 403, isOfProxy: true });
    expect(await opened('https://gpu.test', 407)).toMatchObject({
      message: `${name} asks for a login by Digest, which is not supported; ask its admin for another one`,
    });
    expect(await opened('https://gpu.test', 403)).toMatchObject({
      ...{ status: 403, isOfProxy: true },
      message:
        `${name} does not let anybody reach gpu.test:443 (HTTP 403); ask its admin to allow it, ` +
        'or list the host in NO_PROXY if it can be reached directly',
    });
    server.close();
    server.closeAllConnections();
    expect(await opened('https://gpu.test', 200)).toMatchObject({
      ...{ fault: 'unreached', message: `${name} cannot be reached: nothing listens there` },
    });
  });

  test('A connection to a proxy that refuses it is closed', async () => {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    stub({ https_proxy: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
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
});
