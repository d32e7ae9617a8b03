import { getEventListeners, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import net from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { app, devices, health, job, kill } from '../../../src/client/connection/api.js';
import { proxyTo } from '../../../src/client/connection/proxy.js';
import { ClientError } from '../../../src/client/errors.js';
import { showMonotonicTime } from '../../support/monotonic-time.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

const failure = (promise: Promise<unknown>): Promise<ClientError> =>
  promise.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => {
      expect(error).toBeInstanceOf(ClientError);
      return error as ClientError;
    },
  );

/** A port that accepts connections and never sends a byte. */
class SilentPort implements AsyncDisposable {
  readonly socket: Promise<net.Socket>;

  private constructor(private readonly server: net.Server) {
    this.socket = once(server, 'connection').then(([socket]) => {
      socket.on('error', () => {}).resume();
      return socket;
    });
  }

  static async start(): Promise<SilentPort> {
    const server = net.createServer();
    const port = new SilentPort(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return port;
  }

  get port(): number {
    return (this.server.address() as net.AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    (await this.socket).destroy();
    this.server.close();
  }
}

describe('a connection', () => {
  test('A connection keeps the path prefix of the address, and percent-encodes whole identifiers', async () => {
    await using server = await ScriptedServer.start((_, response) =>
      json(response, 200, { app: 'x', display_name: 'X' }),
    );
    await using connection = connectTo(`${server.url}/lab/service/`);
    await app(connection, 'VBoussot/ImpactSynth:MR');
    expect(server.received[0]?.url).toBe('/lab/service/repo_apps/VBoussot/ImpactSynth%3AMR');
    expect(connection.server).toBe(`${server.url}/lab/service`);
  });

  test.each([
    [400, 2],
    [401, 4],
    [403, 4],
    [404, 2],
    [410, 1],
    [413, 2],
    [422, 2],
    [429, 6],
    [500, 1],
    [502, 5],
    [503, 6],
    [507, 6],
  ])('A refusal with %i ends with exit code %i, in the words of the server', async (status, exitCode) => {
    await using server = await ScriptedServer.start((_, response) =>
      json(response, status, { detail: 'So it is.' }, { 'retry-after': '7' }),
    );
    await using connection = connectTo(server.url);
    const error = await failure(health(connection, 2));
    expect(error).toMatchObject({ message: 'So it is.', exitCode, status, retryAfter: 7 });
  });

  test('Errors that a server sends as a list, and the page of a proxy, are understood', async () => {
    const bodies = [JSON.stringify({ detail: [{ loc: ['body', 'tta'], msg: 'not an integer' }] }), '<html>'];
    await using server = await ScriptedServer.start((_, response) => {
      response.writeHead(422).end(bodies.shift());
    });
    await using connection = connectTo(server.url);
    expect((await failure(health(connection, 2))).message).toBe('--tta: not an integer');
    expect((await failure(health(connection, 2))).message).toMatch(/HTTP 422/);
  });

  test('If a server has moved, the error names its new address, and the token is not sent there', async () => {
    await using server = await ScriptedServer.start((_, response) => {
      response.writeHead(308, { location: 'https://elsewhere.example/' }).end();
    });
    await using connection = connectTo(server.url, { token: 'secret' });
    expect((await failure(health(connection, 2))).message).toContain('https://elsewhere.example/');
    expect(server.received).toHaveLength(1);
  });

  test('A request to a silent server ends with the time-out of the call or of the connection', async () => {
    await using server = await ScriptedServer.start(() => {});
    await using connection = connectTo(server.url, { readTimeout: 0.2 });
    expect(await failure(health(connection, 0.1))).toMatchObject({ exitCode: 3, fault: 'timeout' });
    expect(await failure(devices(connection))).toMatchObject({ exitCode: 3, fault: 'timeout' });
  });

  test.each([200, 404])(
    'A request whose answer stops after a %i ends with its time-out',
    async (status) => {
      await using server = await ScriptedServer.start(
        (_, response) => void response.writeHead(status, { 'content-type': 'application/json' }).write('{'),
      );
      await using connection = connectTo(server.url, { readTimeout: 600 });
      expect(await failure(job(connection, 'ab', 0.1))).toMatchObject({
        exitCode: 3,
        message: `${server.url} did not answer in time`,
      });
    },
    10_000,
  );

  test.for<[string, (response: ServerResponse) => void]>([
    ['interim answers', (response) => response.writeProcessing()],
    ['a refusal by the byte', (response) => void response.write(' ')],
  ])('A request to a server that sends %s endlessly is abandoned in time', async ([, drip]) => {
    await using server = await ScriptedServer.start((_, response) => {
      response.statusCode = 404;
      const timer = setInterval(() => drip(response), 20);
      response.on('close', () => clearInterval(timer));
    });
    await using connection = connectTo(server.url, { readTimeout: 0.3 });
    const whole = connection.send('/anything').then((reply) => connection.refused(reply, '/anything'));
    expect(await failure(whole)).toMatchObject({
      exitCode: 3,
      message: `${server.url} did not answer in time`,
    });
  });

  test('An interruption ends every request except a kill, and the error gives its reason', async () => {
    await using server = await ScriptedServer.start((request, response) => {
      if (request.method === 'POST') json(response, 200, { status: 'killed' });
    });
    const controller = new AbortController();
    await using connection = connectTo(server.url, { signal: controller.signal });
    const pending = failure(health(connection, 2));
    controller.abort(new ClientError('stop', 130));
    expect((await pending).message).toBe('stop');
    expect(await kill(connection, 'ab', 2)).toEqual({ job_id: 'ab', status: 'killed', message: '' });
  });

  test.each([['gpu-box:8000'], ['ftp://host'], ['nonsense'], ['http://user:secret@host']])(
    'The address %s is refused without showing a password',
    (address) => {
      expect(() => connectTo(address)).toThrow(expect.objectContaining({ exitCode: 2 }));
      expect(() => connectTo(address)).not.toThrow(/secret/);
    },
  );
});

test.each(['http', 'https'])(
  'A connection to a silent %s port is abandoned, and keeps no process alive',
  async (scheme) => {
    await using silent = await SilentPort.start();
    const connection = connectTo(`${scheme}://127.0.0.1:${silent.port}`, { connectTimeout: 60 });
    const begun = performance.now();
    expect(await failure(health(connection, 0.5))).toMatchObject({ exitCode: 3 });
    const closed = once(await silent.socket, 'close');
    await connection.close();
    await closed;
    expect(performance.now() - begun).toBeLessThan(4000);
  },
);

test('If a proxy is silent, the error names it and its variable', async () => {
  await using silent = await SilentPort.start();
  vi.stubEnv('https_proxy', `http://127.0.0.1:${silent.port}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  const address = 'https://gpu.hospital.test';
  await using connection = connectTo(address, { transport: proxyTo(new URL(address), 0.1, undefined) });
  expect((await failure(health(connection, 5))).message).toBe(
    `The proxy http://127.0.0.1:${silent.port} (https_proxy) cannot be reached: it did not answer in time`,
  );
});

test('The query and the fragment of an address are ignored', async () => {
  await using connection = connectTo('http://gpu.test:8000/lab/?a=b#c');
  expect(connection.server).toBe('http://gpu.test:8000/lab');
});

test('Interim answers neither extend a limited wait nor end an unlimited one', async () => {
  let now = 0;
  showMonotonicTime(() => now);
  await using server = await ScriptedServer.start((_, response) => {
    now += 60_000;
    response.writeProcessing();
    json(response, 200, {});
  });
  await using connection = connectTo(server.url, { readTimeout: 50 });
  const upload = await connection.send('/x', { method: 'POST', headTimeout: 0 });
  await upload.body.dump();
  expect(upload.statusCode).toBe(200);
  await expect(connection.send('/x')).rejects.toThrow(`${server.url} did not answer in time`);
  await expect(connection.send('/x', { headTimeout: 70 })).resolves.toMatchObject({ statusCode: 200 });
});

test('An answer leaves no listener on the signal of the connection', async () => {
  const { signal } = new AbortController();
  await using server = await ScriptedServer.start((_, response) => json(response, 200, { status: 'ok' }));
  await using connection = connectTo(server.url, { signal });
  await health(connection, 5);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

test('The tunnel to a server is closed with the connection', async () => {
  const closed: string[] = [];
  const transport = { name: 'The tunnel', close: async () => void closed.push('The tunnel') };
  await connectTo('http://gpu.test', { transport }).close();
  expect(closed).toEqual(['The tunnel']);
});
