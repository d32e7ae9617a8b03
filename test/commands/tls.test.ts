import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { type KeyPair, selfSigned, signed } from '../support/certificates.js';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { lacks } from '../support/needs.mjs';
import { ScriptedServer } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';

/** A server with TLS that answers every request as a healthy service does. */
class TlsServer implements AsyncDisposable {
  private constructor(
    readonly server: ReturnType<typeof createServer>,
    readonly port: number,
  ) {}

  static async start({ key, cert }: KeyPair): Promise<TlsServer> {
    const server = createServer({ key, cert }, (_, response) => response.end('{"status":"ok"}'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new TlsServer(server, (server.address() as AddressInfo).port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

const withoutOpenssl = lacks('openssl');

const health = (cli: Cli, server: string, ...more: string[]) =>
  cli.run(['health', '--timeout', '10', '--server', server, ...more]);

describe('a certificate', () => {
  test.skipIf(withoutOpenssl)('A self-signed certificate is refused, and trusted with --ca', async () => {
    await using cli = await Cli.create();
    const pair = await selfSigned(cli.directory, 'gpu', 'localhost');
    await using server = await TlsServer.start(pair);
    const url = `https://localhost:${server.port}`;
    const refused = await health(cli, url);
    expect(refused.code).toBe(5);
    expect(refused.stderr).toMatch(
      /^Error: https:\S+ shows a certificate 'gpu' that it has signed itself; get it .* --ca FILE \(its SHA-256 is (\w\w:){31}\w\w\)\n$/,
    );
    const unchecked = { NODE_TLS_REJECT_UNAUTHORIZED: '0', SERVICE_API_TOKEN: 'secret' };
    expect((await cli.run(['health', '--server', url], unchecked)).code).toBe(5);
    expect((await health(cli, url, '--ca', pair.file)).code).toBe(0);
    expect((await cli.run(['health', '--server', url], { REMOTE_APP_CA: pair.file })).code).toBe(0);
    // The profile works from anywhere.
    const login = await cli.run(['login', '--server', url, '--ca', path.basename(pair.file)]);
    expect([login.code, login.stderr]).toEqual([0, '']);
    expect((await cli.run(['health'])).stdout).toBe(`${url} is ok\n`);
  });

  test.skipIf(withoutOpenssl)('A certificate of an unknown authority is trusted with --ca only', async () => {
    await using cli = await Cli.create();
    const authority = await selfSigned(cli.directory, 'authority');
    const other = await selfSigned(cli.directory, 'other');
    await using server = await TlsServer.start(
      await signed(cli.directory, 'gpu', { by: 'authority', host: 'localhost' }),
    );
    const url = `https://localhost:${server.port}`;
    const words = "shows the certificate 'gpu', issued by 'authority', which this machine does not know";
    expect((await health(cli, url)).stderr).toContain(`${words}; get the issuer's certificate`);
    const { stderr } = await health(cli, url, '--ca', other.file);
    expect(stderr).toContain(`${words}, and the certificates in '${other.file}' do not cover it; `);
    expect((await health(cli, url, '--ca', authority.file)).code).toBe(0);
  });

  test.skipIf(withoutOpenssl)('A certificate that has expired or has another name is refused', async () => {
    await using cli = await Cli.create();
    const { file } = await selfSigned(cli.directory, 'authority');
    const expired = await signed(cli.directory, 'old', { by: 'authority', host: 'localhost', days: -1 });
    await using old = await TlsServer.start(expired);
    const late = await health(cli, `https://localhost:${old.port}`, '--ca', file);
    expect(late.code).toBe(5);
    expect(late.stderr).toMatch(
      /^Error: The certificate 'old' of https:\S+ has expired \(.*GMT\); .*admin must renew it/,
    );
    await using gpu = await TlsServer.start(
      await signed(cli.directory, 'gpu', { by: 'authority', host: 'gpu.test' }),
    );
    const misnamed = await health(cli, `https://localhost:${gpu.port}`, '--ca', file);
    expect(misnamed.code).toBe(5);
    expect(misnamed.stderr).toMatch(
      /^Error: The certificate of https:\S+ is for gpu\.test, not for 'localhost'; /,
    );
  });

  test.each([
    ['that is not there', 'gone.pem', 'no such file or directory (ENOENT)'],
    ['without a certificate', 'note.txt', 'it holds no certificate in PEM form'],
    ['with a damaged one', 'damaged.pem', 'its certificate 1 is damaged'],
  ])('A certificate file %s is a usage error', async (_, name, words) => {
    await using cli = await Cli.create();
    await plant(cli.directory, {
      'note.txt': 'hello',
      'damaged.pem': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    });
    const { code, stderr } = await health(cli, 'https://localhost:1', '--ca', name);
    expect(code).toBe(2);
    expect(stderr).toContain(`Error: The certificates in '${name}' cannot be used: ${words}`);
  });
});

describe('TLS and plain HTTP', () => {
  test('https to a port without TLS suggests http', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({});
    const { code, stderr } = await health(cli, server.url.replace('http', 'https'));
    expect(code).toBe(5);
    expect(stderr).toContain(`does not speak TLS; use ${server.url}, which is not encrypted`);
  });

  test('http to a TLS port where a proxy sends an error page suggests https', async () => {
    await using cli = await Cli.create();
    const page = '<html>400 The plain HTTP request was sent to HTTPS port<hr>nginx</html>';
    await using server = await ScriptedServer.start((_, response) => {
      response.writeHead(400, { 'content-type': 'text/html' }).end(page);
    });
    const { stderr } = await health(cli, server.url);
    expect(stderr).toBe(`Error: ${server.url} speaks TLS; use ${server.url.replace('http', 'https')}\n`);
  });
});

describe('an error page of the proxy', () => {
  test.each([
    [
      413,
      2,
      'A proxy in front of URL refuses an upload of this size \\(HTTP 413\\); .*client_max_body_size 0',
    ],
    [502, 5, 'A proxy answers at URL, but the server behind it does not \\(HTTP 502\\)'],
    [503, 5, 'A proxy answers at URL, but the server behind it does not \\(HTTP 503\\)'],
    [504, 5, 'A proxy answers at URL, but the server behind it does not \\(HTTP 504\\)'],
  ])(
    'The page of a proxy with status %i is explained in its own sentence',
    async (status, exitCode, words) => {
      await using cli = await Cli.create();
      await using server = await ScriptedServer.start((_, response) => {
        response.writeHead(status, { 'content-type': 'text/html' }).end(`<html>${status} nginx</html>`);
      });
      const { code, stderr } = await health(cli, server.url);
      expect(code).toBe(exitCode);
      expect(stderr).toMatch(new RegExp(`^Error: ${words.replace('URL', server.url)}`));
    },
  );
});
