import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { selfSigned } from '../support/certificates.js';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { HttpProxy, type ProxyRules } from '../support/http-proxy.js';
import { lacks } from '../support/needs.mjs';
import { nginxArguments } from '../support/nginx.mjs';
import { freePort } from '../support/ports.mjs';
import { json } from '../support/scripted-server.js';
import { apps, sharedServer } from '../support/server.js';
import { plant, temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { zipOf } from '../support/zip.mjs';

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

describe('a proxy from the environment', () => {
  test('A server without TLS can be used for inference through a proxy', async () => {
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

  test.skipIf(lacks('openssl'))('A server with TLS is checked through a tunnel as well', async () => {
    await using cli = await Cli.create();
    const { key, cert, file } = await selfSigned(cli.directory, 'server', host);
    const server = createTlsServer({ key, cert }, (_, response) => response.end('{"status":"ok"}'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await using proxy = await HttpProxy.start({ port, login: 'ana:secret' });
    const env = { HTTPS_PROXY: `ana:secret@127.0.0.1:${proxy.port}` };
    const trusted = await cli.run(['health', '--server', `https://${host}`, '--ca', file], env);
    const untrusted = await cli.run(['health', '--server', `https://${host}:8443`], env);
    server.close();
    server.closeAllConnections();
    expect([trusted.code, trusted.stderr]).toEqual([0, '']);
    expect(proxy.asked).toEqual([`CONNECT ${host}:443`, `CONNECT ${host}:8443`]);
    expect(untrusted.code).toBe(5);
    expect(untrusted.stderr).toMatch(/shows a certificate 'server' that it has signed itself; .* --ca FILE/);
  });

  test.each(['http', 'https'])('With %s, each refusal of a proxy has its own sentence', async (scheme) => {
    const target = scheme === 'http' ? `http://${host}` : `${host}:443`;
    const cases: [Omit<ProxyRules, 'port'>, string, number, string][] = [
      [{ login: 'a:b' }, '', 4, ' asks for a user and a password: put them into '],
      [{ login: 'a:b' }, 'ana:hush@', 4, ' refuses the user and the password in '],
      [
        { refuse: 407, asks: 'Negotiate, basic realm="x, y"' },
        'a:b@',
        4,
        ' refuses the user and the password in ',
      ],
      [{ refuse: 407, asks: 'Negotiate' }, '', 4, ' asks for a login by Negotiate, which is not supported; '],
      [{ refuse: 403 }, 'ana:hush@', 4, ` does not let anybody reach ${target}`],
      [{ refuse: 503 }, 'ana:hush@', 5, ` cannot reach ${target} (HTTP 503)`],
    ];
    for (const [rules, credentials, exitCode, words] of cases) {
      const { code, stderr, name } = await health(rules, credentials, scheme);
      expect([code, stderr]).toEqual([exitCode, expect.stringContaining(`Error: ${name}${words}`)]);
      expect(stderr).not.toContain('hush');
    }
  });

  test.each([
    ['http', 'HTTP_PROXY'],
    ['https', 'https_proxy'],
  ])('With %s, a proxy that cannot be reached is named with its variable', async (scheme, variable) => {
    await using cli = await Cli.create();
    const gone = await fakeService({});
    await gone[Symbol.asyncDispose]();
    const proxy = `http://127.0.0.1:${portOf(gone.url)}`;
    const env = { [variable]: proxy.replace('//', '//ana:hush@') };
    const { code, stderr } = await cli.run(['health', '--server', `${scheme}://${host}`], env);
    expect(code).toBe(5);
    expect(stderr).toBe(`Error: The proxy ${proxy} (${variable}) cannot be reached: nothing listens there\n`);
  });

  test('A server on this machine, or one in NO_PROXY, is reached directly', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({});
    const env = { HTTP_PROXY: 'http://127.0.0.1:1' };
    expect((await cli.run(['health', '--server', server.url], env)).code).toBe(0);
    const listed = { ...env, NO_PROXY: 'elsewhere.test, hospital.test' };
    const { stderr } = await cli.run(['health', '--server', `http://${host}`], listed);
    expect(stderr).toMatch(new RegExp(`^Error: http://${host} cannot be reached: `));
  });
});

/** What proxies do with the address of a request: pass on a changed one, refuse it with their own page, or redirect. */
type Manners = (path: string) => string | { readonly status: number; readonly location?: string };

const merged = (path: string) => path.replaceAll(/\/{2,}/g, '/');
const decoded = (path: string) => path.replaceAll(/%2f/gi, '/');
const manners: Readonly<Record<string, Manners>> = {
  'as Apache does by default': (path) => (/%2f/i.test(path) ? { status: 404 } : merged(path)),
  'as Traefik and Tomcat do': (path) => (/%2f/i.test(path) ? { status: 400 } : path),
  'and decodes and merges slashes': (path) => merged(decoded(path)),
  'and decodes them alone': decoded,
  'and sends clients on to the decoded address, as Envoy can': (path) =>
    /%2f/i.test(path) ? { status: 307, location: decoded(path) } : path,
};

/** Starts a proxy in front of a server, with a prefix that it removes. */
async function proxyInFront(target: string, treat: Manners): Promise<string> {
  const proxy = createServer((incoming, response) => {
    // None of these proxies touches the query.
    const [place = '', query] = incoming.url?.replace(/^\/lab/, '').split('?') ?? [];
    const asked = query === undefined ? '' : `?${query}`;
    const treated = treat(place);
    if (typeof treated !== 'string') {
      incoming.resume();
      const location = treated.location && { location: `/lab${treated.location}${asked}` };
      response.writeHead(treated.status, { 'content-type': 'text/html', ...location });
      response.end(`<html>${treated.status}</html>`);
      return;
    }
    const { method, headers } = incoming;
    const onward = request(target + treated + asked, { method: method ?? 'GET', headers }, (reply) => {
      response.writeHead(reply.statusCode ?? 0, reply.headers);
      reply.pipe(response);
    });
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/lab`;
}

describe('an identifier with slashes behind a proxy', async () => {
  const directory = await temporary();
  const list = path.join(directory.path, 'apps.json');
  await writeFile(list, JSON.stringify({ apps: [{ name: 'VB/Echo:MR', source: apps.probe }, apps.shell] }));
  const server = sharedServer({ apps: [list] });
  afterAll(() => directory[Symbol.asyncDispose]());

  /** Shows both apps, and runs one of them. */
  async function useBoth(address: string) {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'voxels' });
    const env = { REMOTE_APP_SERVER: address };
    for (const id of ['VB/Echo:MR', apps.shell]) {
      const { code, stdout, stderr } = await cli.run(['apps', id], env);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(id);
    }
    const config = await cli.run(['apps', apps.shell, '--config', 'config'], env);
    expect([config.code, config.stderr]).toEqual([0, '']);
    const { code, stderr } = await cli.run(['infer', 'ct.nii', '--app', 'VB/Echo:MR', '-o', 'Result'], env);
    expect([code, stderr]).toEqual([0, expect.stringContaining('infer on VB/Echo:MR')]);
  }

  test.skipIf(lacks('nginx')).for([
    ['passes addresses on as they are', ''],
    ['removes a prefix, and so decodes and merges', '/'],
  ])('An identifier with slashes works behind an nginx that %s', async ([, slash]) => {
    await using place = await temporary();
    const port = await freePort();
    const location = slash ? '/lab/' : '/';
    const block = `server { listen 127.0.0.1:${port}; location ${location} { proxy_pass ${server.url}${slash}; } }`;
    const child = spawn('nginx', nginxArguments(place.path, block), {
      stdio: 'ignore',
      env: { PATH: `${process.env.PATH}:/usr/sbin` },
    });
    const end = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGTERM');
      await end;
    });
    const address = `http://127.0.0.1:${port}${slash && '/lab'}`;
    await until('nginx answers', () =>
      fetch(`${address}/health`).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
    await useBoth(address);
  });

  test.each(Object.keys(manners))('An identifier works if a proxy treats slashes %s', async (name) => {
    await useBoth(await proxyInFront(server.url, manners[name] as Manners));
  });

  test('If a proxy rejects slashes, the command says what the proxy does', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'voxels' });
    const address = await proxyInFront(server.url, (asked) => (/Echo/.test(asked) ? { status: 404 } : asked));
    for (const words of [
      ['apps', 'VB/Echo:MR'],
      ['infer', 'ct.nii', '-a', 'VB/Echo:MR'],
    ]) {
      const { code, stderr } = await cli.run(words, { REMOTE_APP_SERVER: address });
      expect(code, stderr).toBe(5);
      expect(stderr).toMatch(
        /^Error: \S+ lists the app 'VB\/Echo:MR', but a proxy in front of it does not pass that name on \(HTTP 404\); .*merge_slashes off/,
      );
    }
  });

  test('If a proxy merges slashes, the failure of a server that does not know the shorter identifier is explained', async () => {
    await using cli = await Cli.create();
    const id = '/srv/apps/Tiny';
    await using old = await fakeService({
      apps: [id],
      override: ({ url }, response) => {
        const seen = /^\/repo_apps\/(.*)/.exec(decodeURIComponent(url))?.[1];
        if (seen === undefined) return false;
        const isKnown = seen === id;
        json(response, isKnown ? 200 : 404, isKnown ? { app: id } : { detail: `Unknown app '${seen}'` });
        return true;
      },
    });
    const address = await proxyInFront(old.url, (asked) => merged(decoded(asked)));
    const { code, stderr } = await cli.run(['apps', id], { REMOTE_APP_SERVER: address });
    expect([code, stderr]).toEqual([2, expect.stringContaining('does not pass that name on (HTTP 404)')]);
  });
});
