import { readFile } from 'node:fs/promises';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { zipOf } from '../../support/zip.mjs';
import { selfSigned } from '../support/certificates.js';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { HttpProxy, type ProxyRules } from '../support/http-proxy.js';
import { lacks } from '../support/needs.mjs';
import { plant } from '../support/temporary.js';

const host = 'gpu.hospital.test';
const portOf = (url: string): number => Number(new URL(url).port);

/** Asks for the health of a server that only the proxy can find. */
async function health(rules: Omit<ProxyRules, 'port'>, credentials: string, scheme: string) {
  await using cli = await Cli.create();
  await using server = await fakeService({});
  await using proxy = await HttpProxy.start({ port: portOf(server.url), ...rules });
  const variable = `${scheme.toUpperCase()}_PROXY`;
  const env = { [variable]: `http://${credentials}127.0.0.1:${proxy.port}` };
  const ended = await cli.run(['health', '--server', `${scheme}://${host}`], env);
  const name = `The proxy http://127.0.0.1:${proxy.port} (${variable})`;
  return { ...ended, name, asked: proxy.asked };
}

describe('through a proxy of the environment', () => {
  test('a server without TLS can be used for an inference', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': Buffer.alloc(3 << 20, 1) });
    await using server = await fakeService({ lines: ['one'], result: zipOf({ 'mask.nii': 'mask' }) });
    await using proxy = await HttpProxy.start({ port: portOf(server.url), login: 'ana:p@ss' });
    const env = { http_proxy: `http://ana:p%40ss@127.0.0.1:${proxy.port}`, HTTP_PROXY: 'http://127.0.0.1:1' };
    const address = `http://${host}:8000/lab`;
    const { code, stdout, stderr } = await cli.run(['health', '--server', `http://${host}:8000`], env);
    expect([code, stderr, stdout]).toEqual([0, '', `http://${host}:8000 is ok\n`]);
    expect(proxy.asked).toEqual([`GET http://${host}:8000/health`]);
    const infer = await cli.run(['infer', 'ct.nii', '--server', `http://${host}:8000`], env);
    expect([infer.code, infer.stdout]).toEqual([0, 'one\n']);
    expect(await readFile(path.join(cli.directory, 'Output', 'mask.nii'), 'utf8')).toBe('mask');
    await cli.run(['health', '--server', address], env);
    expect(proxy.asked.at(-1)).toBe(`GET ${address}/health`);
    // The password is for the proxy alone.
    expect(server.received.some(({ headers }) => 'proxy-authorization' in headers)).toBe(false);
  });

  test.skipIf(lacks('openssl'))(
    'a server with TLS is reached through a tunnel, and its certificate is still checked',
    async () => {
      await using cli = await Cli.create();
      const { key, cert, file } = await selfSigned(cli.directory, 'server', host);
      const server = createTlsServer({ key, cert }, (_, response) => response.end('{"status":"ok"}'));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      await using proxy = await HttpProxy.start({ port, login: 'ana:secret' });
      const env = { HTTPS_PROXY: `ana:secret@127.0.0.1:${proxy.port}` };
      const trusted = await cli.run(['health', '--server', `https://${host}`, '--ca', file], env);
      const untrusted = await cli.run(['health', '--server', `https://${host}`], env);
      server.close();
      server.closeAllConnections();
      expect([trusted.code, trusted.stderr]).toEqual([0, '']);
      expect(proxy.asked).toEqual([`CONNECT ${host}:443`, `CONNECT ${host}:443`]);
      expect(untrusted.code).toBe(5);
      expect(untrusted.stderr).toMatch(
        /shows a certificate 'server' that it has signed itself; .* --ca FILE/,
      );
    },
  );

  test.each(['http', 'https'])(
    '%s: each refusal has its own sentence, without the password',
    async (scheme) => {
      const target = scheme === 'http' ? `http://${host}` : `${host}:443`;
      const cases: [Omit<ProxyRules, 'port'>, string, number, string][] = [
        [{ login: 'a:b' }, '', 4, ' asks for a user and a password: put them into '],
        [{ login: 'a:b' }, 'ana:hush@', 4, ' refuses the user and the password in '],
        [
          { refuse: 407, asks: 'Negotiate' },
          '',
          4,
          ' asks for a login by Negotiate, which is not supported; ',
        ],
        [{ refuse: 403 }, 'ana:hush@', 4, ` does not let anybody reach ${target}`],
        [{ refuse: 503 }, 'ana:hush@', 5, ` cannot reach ${target} (HTTP 503)`],
      ];
      for (const [rules, credentials, exitCode, words] of cases) {
        const { code, stderr, name } = await health(rules, credentials, scheme);
        expect([code, stderr]).toEqual([exitCode, expect.stringContaining(`Error: ${name}${words}`)]);
        expect(stderr).not.toContain('hush');
      }
    },
  );

  test.each([
    ['http', 'HTTP_PROXY'],
    ['https', 'https_proxy'],
  ])('%s: one that is not there is named with its variable', async (scheme, variable) => {
    await using cli = await Cli.create();
    const gone = await fakeService({});
    await gone[Symbol.asyncDispose]();
    const proxy = `http://127.0.0.1:${portOf(gone.url)}`;
    const env = { [variable]: proxy.replace('//', '//ana:hush@') };
    const { code, stderr } = await cli.run(['health', '--server', `${scheme}://${host}`], env);
    expect(code).toBe(5);
    expect(stderr).toBe(`Error: The proxy ${proxy} (${variable}) cannot be reached: nothing listens there\n`);
  });

  test('a server on this machine, or in NO_PROXY, is reached directly', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({});
    const env = { HTTP_PROXY: 'http://127.0.0.1:1' };
    expect((await cli.run(['health', '--server', server.url], env)).code).toBe(0);
    const listed = { ...env, NO_PROXY: 'elsewhere.test, hospital.test' };
    const { stderr } = await cli.run(['health', '--server', `http://${host}`], listed);
    expect(stderr).toMatch(new RegExp(`^Error: http://${host} cannot be reached: `));
  });
});
