import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Api, refusal } from '../support/api.js';
import { type KeyPair, selfSigned } from '../support/certificates.js';
import { type Begun, Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { least, steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { konfaiJobId, konfaiServer } from '../support/konfai-server.js';
import { lacks } from '../support/needs.mjs';
import { nginxArguments } from '../support/nginx.mjs';
import { freePort } from '../support/ports.mjs';
import { sharedServer } from '../support/server.js';
import { Sshd } from '../support/sshd.js';
import { temporary } from '../support/temporary.js';
import { Tus } from '../support/tus.js';
import { until } from '../support/until.mjs';

const token = 'token-of-the-server';
const server = sharedServer({ token });

/** What `--json` prints. */
interface Document {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly server: string;
}

/** A `forward` in the process of the test. */
class Forward implements AsyncDisposable {
  readonly begun: Begun;
  /** Its output on stderr so far. */
  said = '';
  #isStopped = false;

  constructor(cli: Cli, words: readonly string[], env: NodeJS.ProcessEnv = {}) {
    this.begun = cli.begin(['forward', ...words], { SERVICE_API_TOKEN: token, ...env });
    this.begun.stderr.on('data', (chunk) => {
      this.said += chunk;
    });
  }

  /** Starts one and waits for its document. Returns it with a client that goes through it. */
  static async open(cli: Cli, words: readonly string[], env?: NodeJS.ProcessEnv) {
    const forward = new Forward(cli, ['--port', '0', '--json', ...words], env);
    const [line = '', ...rest] = (await forward.printed()).split('\n');
    expect(rest).toEqual(['']);
    const document = JSON.parse(line) as Document;
    const gateway = { url: `http://${document.host}:${document.port}`, token: document.token };
    const api = new Api(gateway, 'probe');
    return Object.assign(forward, { document, api });
  }

  /** What it prints when it listens. */
  async printed(): Promise<string> {
    const failed = this.begun.ended.then(({ stderr }) => Promise.reject(new Error(stderr)));
    const [printed] = await Promise.race([once(this.begun.stdout, 'data'), failed]);
    return String(printed);
  }

  /** Ends it with Ctrl-C. */
  stop() {
    if (!this.#isStopped) this.begun.signal('SIGINT');
    this.#isStopped = true;
    return this.begun.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Runs a job through a gateway, as KonfAI's clients do, and compares all that comes back with what the server has. */
async function expectEqual(api: Api): Promise<void> {
  const scan = new Uint8Array(2 ** 20).map((_, at) => at % 251);
  const form = {
    ...least.infer,
    inputs: file('ct.nii', scan),
    ...steps('print=hello', 'fill=mask.nii:100000'),
  };
  const { id, log, view } = await api.run('infer', form);
  expect(view.status).toBe('done');
  expect(log).toContain('data: hello\n\n');
  expect(log).toBe(await server.api.log(id));
  await until('what it keeps and its version are known', async () => {
    const { bytes_kept, version } = await server.api.job(id);
    // The upload counts until the leftovers are measured: `probe.json` holds the scan in more than twice the bytes.
    return Number(bytes_kept) > 2 * scan.length && version !== null;
  });
  for (const path of [
    `/jobs/${id}`,
    `/jobs/${id}/result`,
    '/repo_apps_list',
    '/repo_apps/probe',
    '/repo_apps/nowhere',
  ]) {
    const [through, direct] = await Promise.all([api.fetch(path), server.api.fetch(path)]);
    expect([path, through.status, through.headers.get('etag')]).toEqual([
      path,
      direct.status,
      direct.headers.get('etag'),
    ]);
    expect(
      Buffer.from(await through.arrayBuffer()).equals(Buffer.from(await direct.arrayBuffer())),
      path,
    ).toBe(true);
  }
  const parts = await api.fetch(`/jobs/${id}/result`, { headers: { range: 'bytes=10-19' } });
  expect([parts.status, (await parts.arrayBuffer()).byteLength]).toEqual([206, 10]);
}

/** A stock nginx with TLS that serves the service below a prefix. */
async function nginxInFront(pair: KeyPair, directory: string): Promise<string> {
  const port = await freePort();
  const tls = `listen 127.0.0.1:${port} ssl; ssl_certificate ${pair.file}; ssl_certificate_key ${pair.file.replace('.pem', '.key')};`;
  const block = `server { ${tls} location /lab/ { proxy_pass ${server.url}/; client_max_body_size 0; proxy_request_buffering off; } }`;
  const child = spawn('nginx', nginxArguments(directory, block), {
    stdio: 'ignore',
    env: { PATH: `${process.env.PATH}:/usr/sbin` },
  });
  const end = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await end;
  });
  await until('nginx listens', async () => {
    const socket = connect(port, '127.0.0.1');
    const isMade = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    return isMade;
  });
  return `https://localhost:${port}/lab`;
}

describe('a job through forward', () => {
  test.skipIf(lacks('nginx', 'openssl'))(
    'A job through forward behaves as with a server behind nginx, with TLS and a prefix',
    async () => {
      await using cli = await Cli.create();
      await using place = await temporary();
      const pair = await selfSigned(place.path, 'gpu', 'localhost');
      const address = await nginxInFront(pair, place.path);
      await using forward = await Forward.open(cli, ['--server', address, '--ca', pair.file]);
      expect(forward.document.server).toBe(address);
      await expectEqual(forward.api);
      expect((await forward.stop()).code).toBe(0);
    },
  );

  test.skipIf(lacks('ssh', 'sshd'))('A job through forward behaves as one through ssh', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    const address = `ssh://gpu/${new URL(server.url).port}`;
    await using forward = await Forward.open(cli, ['--server', address], sshd.environment);
    await expectEqual(forward.api);
    expect((await forward.stop()).code).toBe(0);
  });

  test("A job through forward to KonfAI's server prints its log once", async () => {
    await using cli = await Cli.create();
    const result = Buffer.alloc(300_000, 'zip');
    await using konfai = await konfaiServer({ queue: ['one', 'two', '__DONE__'], result });
    await using forward = await Forward.open(cli, ['--server', konfai.url]);
    const { api } = forward;
    const accepted = await api.submit(
      'infer',
      { inputs: file('ct.nii'), inputs_groups: '1' },
      { app: 'tissue' },
    );
    expect(await accepted.json()).toMatchObject({ job_id: konfaiJobId });
    expect(konfai.inputs).toEqual([['ct.nii']]);
    expect(await api.log(konfaiJobId)).toMatch(/\n\ndata: one\n\ndata: two\n\ndata: __DONE__\n\n$/);
    const saved = await api.fetch(`/jobs/${konfaiJobId}/result`);
    expect(Buffer.from(await saved.arrayBuffer()).equals(result)).toBe(true);
    expect((await forward.stop()).code).toBe(0);
  });
});

describe('forward', () => {
  test('forward prints what to give to other programs and what to set, and exits with 0 after Ctrl-C', async () => {
    await using cli = await Cli.create();
    await using service = await fakeService({ token });
    const port = await freePort();
    await using forward = new Forward(cli, ['--port', String(port), '--server', service.url]);
    const printed = await forward.printed();
    const [, secret] = /^host {3}127\.0\.0\.1\nport {3}\d+\ntoken {2}([\w-]{43})\n$/.exec(printed) ?? [];
    const answer = await fetch(`http://localhost:${port}/health`, {
      headers: { authorization: `Bearer ${secret}` },
    });
    expect(await answer.json()).toEqual({ status: 'ok' });
    const { code, stdout, stderr } = await forward.stop();
    expect([code, stdout]).toEqual([0, printed]);
    expect(stderr).toBe(
      `Requests go on to ${service.url}, with its token, until Ctrl-C. The token above is for this run and this machine alone.\n` +
        '3D Slicer, module KonfAI: + beside "Remote server", then this host, port and token.\n' +
        `konfai-apps: --host 127.0.0.1 --port ${port}, and the token in KONFAI_API_TOKEN.\n` +
        'If a proxy is set (HTTP_PROXY), start them with NO_PROXY=127.0.0.1,localhost,::1\n',
    );
    await expect(fetch(`http://127.0.0.1:${port}/health`)).rejects.toThrow();
  });

  test('forward makes a new token for each run', async () => {
    await using cli = await Cli.create();
    const tokens = new Set<string>();
    for (let time = 0; time < 2; time += 1) {
      await using forward = await Forward.open(cli, ['--server', server.url]);
      tokens.add(forward.document.token);
      await forward.stop();
    }
    expect(tokens.size).toBe(2);
  });

  test('forward uses the server and the token of a profile', async () => {
    await using cli = await Cli.create();
    expect((await cli.run(['login', '--server', server.url], {}, `${token}\n`)).code).toBe(0);
    await using forward = await Forward.open(cli, [], { SERVICE_API_TOKEN: undefined });
    expect((await forward.api.fetch('/health')).status).toBe(200);
    await forward.stop();
  });

  test('forward passes on no file if the profile or the environment requires de-identification, unless --no-deidentify is given', async () => {
    await using cli = await Cli.create();
    const login = ['login', '--server', server.url, '--deidentify'];
    expect((await cli.run(login, {}, `${token}\n`)).code).toBe(0);
    const dicom = Buffer.from(`${'\0'.repeat(128)}DICM`);
    const form = { ...least.infer, inputs: file('ct.dcm', dicom) };
    await using forward = await Forward.open(cli, []);
    const { api } = forward;
    const [status, detail] = await api.refused('infer', form);
    expect([status, detail]).toEqual([
      422,
      expect.stringMatching(/passes no files on, .*'remote-app infer --deidentify'/),
    ]);
    const json = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
    expect(await refusal(await api.fetch('/apps/probe/infer', json))).toEqual([422, detail]);
    const tus = new Tus(api);
    for (const bytes of [dicom, undefined])
      expect(await tus.begin(dicom, bytes)).toMatchObject({ status: 422 });
    const { id } = await server.api.run('infer', { ...form, ...steps('print=hello') });
    expect(await api.log(id)).toContain('data: hello');
    expect(await api.kill(id)).toMatchObject({ status: 'done' });
    expect((await forward.stop()).stderr).toMatch(/^Your profile .* passes no files on/);
    await using without = await Cli.create();
    const asked = { REMOTE_APP_DEIDENTIFY: 'full' };
    await using ofVariable = await Forward.open(without, ['--server', server.url], asked);
    expect(await ofVariable.api.refused('infer', form)).toEqual([422, detail]);
    await ofVariable.stop();
    for (const [words, env] of [
      [['--no-deidentify'], {}],
      [[], { REMOTE_APP_DEIDENTIFY: 'no' }],
    ] as const) {
      await using forward = await Forward.open(cli, words, env);
      expect((await forward.api.submit('infer', form)).status).toBe(200);
    }
  });

  test('forward says once that the server is unreachable, and that it is back', async () => {
    await using cli = await Cli.create();
    const port = await freePort();
    const address = `http://127.0.0.1:${port}`;
    await using forward = await Forward.open(cli, ['--server', address]);
    for (let time = 0; time < 2; time += 1) expect((await forward.api.fetch('/health')).status).toBe(502);
    await using service = await fakeService({ token });
    service.server.close();
    await new Promise<void>((resolve) => service.server.listen(port, '127.0.0.1', resolve));
    expect((await forward.api.fetch('/health')).status).toBe(200);
    const { stderr } = await forward.stop();
    expect(stderr.split('\n').slice(4)).toEqual([
      `${address} cannot be reached: nothing listens there; until that changes, requests are answered with this sentence`,
      `${address} answers again`,
      '',
    ]);
  });

  test('forward says when it starts that the server does not accept the token', async () => {
    await using cli = await Cli.create();
    await using forward = await Forward.open(cli, ['--server', server.url], { SERVICE_API_TOKEN: 'another' });
    const notes: string[] = [];
    forward.begun.stderr.on('data', (chunk) => notes.push(String(chunk)));
    await until('it is said', () => /does not accept this token: run 'remote-app login/.test(notes.join('')));
    expect((await forward.stop()).code).toBe(0);
  });

  test('forward says what to do if its port is in use', async () => {
    await using cli = await Cli.create();
    const other = createServer();
    await once(other.listen(0, '127.0.0.1'), 'listening');
    const { port } = other.address() as { port: number };
    const { code, stdout, stderr } = await cli.run([
      'forward',
      '--port',
      String(port),
      '--server',
      server.url,
    ]);
    other.close();
    expect([code, stdout, stderr]).toEqual([
      2,
      '',
      `Error: Port ${port} of this machine cannot be used: another program listens there; give another port with --port, or --port 0 for any free one\n`,
    ]);
  });
});
