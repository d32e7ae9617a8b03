import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import http from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { freePort } from '../support/ports.mjs';
import { json } from '../support/scripted-server.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { zipOf } from '../support/zip.mjs';

const logs = `'remote-app logs ${jobId} --server http://[\\d.:]+'`;
const result = `'remote-app result ${jobId} --server http://[\\d.:]+'`;
const zip = zipOf({ 'mask.nii': 'mask' });

async function cliWithScan(): Promise<Cli> {
  const cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'volume' });
  return cli;
}

const listen = (server: Server | http.Server, port: number) =>
  new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));

/** A promise and the function that resolves it. */
function signal() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Runs a follower of a service that is gone for good once the follower has printed two lines. */
async function follow(cli: Cli, args: readonly string[]) {
  const said = signal();
  const leave = async (): Promise<string> => {
    await said.promise;
    server.server.close();
    server.server.closeAllConnections();
    return 'never read';
  };
  const server = await fakeService({ lines: ['one', 'two', leave], marker: null });
  const running = cli.begin([...args, '--server', server.url]);
  const output = args.includes('--json') ? running.stderr : running.stdout;
  let seen = '';
  output.on('data', (chunk) => {
    seen += chunk;
    if (seen.includes('two\n')) said.resolve();
  });
  return running;
}

describe('a follower whose server is gone for good', () => {
  test.each([
    ['infer', ['infer', 'ct.nii']],
    ['logs', ['logs', jobId]],
  ])('%s names the job and how to continue when its server is gone for good', async (_, args) => {
    await using cli = await cliWithScan();
    const { code, stdout, stderr } = await (await follow(cli, [...args, '--patience', '1'])).ended;
    expect([code, stdout]).toEqual([5, 'one\ntwo\n']);
    // In a pipe, an outage is one line, however many attempts there are.
    expect(stderr.split('trying again for another 1 s'), stderr).toHaveLength(2);
    const [error] = stderr.match(/^Error: .*\n/m) ?? [];
    expect(error).toContain('nothing listens there');
    expect(error).toMatch(
      new RegExp(`job ${jobId} may go on: ${logs} follows it, ${result} fetches its result`),
    );
  });

  test('The error of --json has the id of the job when the server is gone for good', async () => {
    await using cli = await cliWithScan();
    const { stdout } = await (await follow(cli, ['infer', 'ct.nii', '--patience', '1', '--json'])).ended;
    expect(JSON.parse(stdout)).toMatchObject({ error: { exit_code: 5, job_id: jobId } });
  });

  test('A download whose server is gone names the job and says that it is done', async () => {
    await using cli = await cliWithScan();
    await using server = await fakeService({
      override: ({ url }, response) => {
        if (!url.endsWith('/result')) return false;
        response.writeHead(200, { 'content-type': 'application/zip', 'content-length': zip.length });
        response.write(zip.subarray(0, 10), () => {
          server.server.close();
          server.server.closeAllConnections();
        });
        return true;
      },
    });
    const { code, stderr } = await cli.run(['result', jobId, '--patience', '1', '--server', server.url]);
    expect(code).toBe(5);
    expect(stderr).toMatch(
      new RegExp(`^Error: .*; job ${jobId} is done: ${result} fetches its result\n`, 'm'),
    );
  });
});

describe('a request about an accepted job that is refused', () => {
  const goesOn = `job ${jobId} may go on: ${logs} follows it, ${result} fetches its result`;

  /** Runs `infer` against a service that answers this route of the job with this status, from the n-th request on. */
  async function refusedAt(route: '/logs' | '/result', status: number, from = 1) {
    let asked = 0;
    await using server = await fakeService({
      result: zip,
      override: ({ url }, response) => {
        const isLog = url.includes('/logs');
        if (url.includes(route)) asked += 1;
        if (url.includes(route) && asked >= from) json(response, status, { detail: 'oops' });
        else if (isLog) {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          // A log that is refused later is cut after its line.
          const rest = route === '/logs' ? '' : 'data: __DONE__\n\n';
          response.write(`id: 1\ndata: one\n\n${rest}`, () => (rest ? response.end() : response.destroy()));
        } else return false;
        return true;
      },
    });
    await using cli = await cliWithScan();
    const args = ['infer', 'ct.nii', '--json', '--patience', '1', '--server', server.url];
    const { code, stdout } = await cli.run(args);
    return { code, asked, error: JSON.parse(stdout).error };
  }

  test.each([
    [400, 2],
    [401, 4],
    [403, 4],
    [405, 2],
    [418, 1],
  ])('A refusal with %d names the job and how to continue', async (status, exitCode) => {
    const { code, asked, error } = await refusedAt('/logs', status);
    expect([code, asked]).toEqual([exitCode, 1]);
    expect(error).toMatchObject({ job_id: jobId, http_status: status });
    expect(error.message).toMatch(new RegExp(`^oops; ${goesOn}$`));
  });

  test.each([500, 507])('A request refused with %d is repeated within the patience', async (status) => {
    const { asked, error } = await refusedAt('/logs', status);
    expect(asked).toBeGreaterThan(1);
    expect(error).toMatchObject({ job_id: jobId, http_status: status });
    expect(error.message).toMatch(new RegExp(`^oops; ${goesOn}$`));
  });

  test('A refusal in the middle of the log, such as for a revoked token, names the job and how to continue', async () => {
    const { code, error } = await refusedAt('/logs', 401, 2);
    expect([code, error.job_id]).toEqual([4, jobId]);
    expect(error.message).toMatch(new RegExp(`^oops; ${goesOn}$`));
  });

  test('A refused result says that the job is done', async () => {
    const { code, error } = await refusedAt('/result', 401);
    expect([code, error.job_id]).toEqual([4, jobId]);
    expect(error.message).toMatch(new RegExp(`^oops; job ${jobId} is done: ${result} fetches its result$`));
  });

  test('A refusal while the result is awaited names the job once', async () => {
    await using cli = await cliWithScan();
    for (const status of [401, 503]) {
      let asked = 0;
      await using server = await fakeService({
        override: ({ url }, response) => {
          if (!url.endsWith('/result')) return false;
          asked += 1;
          if (asked === 1) json(response, 202, { job_id: jobId, status: 'running' });
          else json(response, status, { detail: 'oops' });
          return true;
        },
      });
      const args = ['result', jobId, '--patience', '1', '--server', server.url];
      const { stderr } = await cli.run(args);
      expect(stderr).toMatch(new RegExp(`^Error: oops; ${goesOn}\n`, 'm'));
    }
  });

  test('An expired job is not reported as continuing', async () => {
    const { code, error } = await refusedAt('/logs', 410);
    expect(code).toBe(1);
    expect(error.message).not.toContain('may go on');
  });
});

test('A download that breaks and cannot be resumed at first reports one outage', async () => {
  await using cli = await cliWithScan();
  let asked = 0;
  await using server = await fakeService({
    override: ({ url, headers }, response) => {
      if (!url.endsWith('/result')) return false;
      asked += 1;
      if (asked === 1) {
        response.writeHead(200, {
          'content-type': 'application/zip',
          'content-length': zip.length,
          etag: '"a"',
        });
        response.write(zip.subarray(0, 10), () => response.destroy());
      } else if (asked < 4) {
        response.destroy();
      } else if (headers.range) {
        const range = `bytes 10-${zip.length - 1}/${zip.length}`;
        response.writeHead(206, { 'content-range': range, etag: '"a"' }).end(zip.subarray(10));
      } else {
        response.writeHead(200, { 'content-type': 'application/zip', etag: '"a"' }).end(zip);
      }
      return true;
    },
  });
  const { code, stderr } = await cli.run(['result', jobId, '--server', server.url]);
  expect([code, asked]).toEqual([0, 4]);
  expect(stderr.match(/trying again/g), stderr).toHaveLength(1);
});

describe('a server that was never reached', () => {
  test.each([
    ['infer', ['infer', '--app', 'x', 'ct.nii']],
    ['logs', ['logs', jobId]],
    ['result', ['result', jobId]],
  ])('If the server was never reached, %s ends once its patience is over', async (_, args) => {
    await using cli = await cliWithScan();
    const server = await fakeService({});
    await server[Symbol.asyncDispose]();
    const { code, stderr } = await cli.run([...args, '--server', server.url, '--patience', '0.1']);
    expect(code).toBe(5);
    const why = `${server.url} cannot be reached: nothing listens there`;
    expect(stderr).toBe(`${why}; in case it is starting, trying again for another 0.1 s\nError: ${why}\n`);
  });

  test.each([
    ['nothing listens', false],
    ['a proxy answers for it', true],
  ])('A command that starts while its server is starting waits for it: %s', async (_, isBehindProxy) => {
    await using cli = await cliWithScan();
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const proxy = http.createServer((_request, response) => response.writeHead(502).end('Bad gateway'));
    if (isBehindProxy) await listen(proxy, port);
    const running = cli.begin(['infer', '--app', 'tissue', 'ct.nii', '-o', 'out', '--server', url]);
    const reason = isBehindProxy ? `${url} is not up yet` : `${url} cannot be reached: nothing listens there`;
    let said = '';
    running.stderr.on('data', (chunk) => {
      said += chunk;
    });
    await until('it waits', () => said.includes(`${reason}; in case it is starting, trying again for`));
    proxy.closeAllConnections();
    if (isBehindProxy) await new Promise((resolve) => proxy.close(resolve));
    await using server = await fakeService({ result: zip });
    const relay = createServer((socket) => {
      const onward = connect(Number(new URL(server.url).port), '127.0.0.1');
      for (const each of [socket, onward]) each.on('error', () => {});
      socket.pipe(onward).pipe(socket);
    });
    await listen(relay, port);
    const { code, stderr } = await running.ended;
    relay.close();
    expect(code, stderr).toBe(0);
    expect(stderr.match(/in case it is starting/g)).toHaveLength(1);
  });
});

test('A command waits for a server that restarts between its first requests', async () => {
  await using cli = await cliWithScan();
  let cut: Promise<void> | null = null;
  await using server = await fakeService({
    result: zip,
    override: ({ url }) => {
      if (url === '/repo_apps_list' || cut) return false;
      cut = network.cut();
      return true;
    },
  });
  await using network = new Network(server.url);
  await network.open();
  const running = cli.begin(['infer', 'ct.nii', '-o', 'out', '--server', network.url]);
  let said = '';
  running.stderr.on('data', (chunk) => {
    said += chunk;
  });
  await until('it waits', () => said.includes('nothing listens there; trying again for another 10 min'));
  await network.open();
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(0);
});

/** Whether bytes of a download are on the disk: what arrives lies in a private directory first. */
const hasBegun = (directory: string): boolean =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.includes('.remote-app-'))
    .map((name) => statSync(path.join(directory, name), { throwIfNoEntry: false }))
    .some((stats) => stats?.isFile() && stats.size > 0);

describe('Ctrl-C during a download', () => {
  test.each([
    ['infer', ['infer', 'ct.nii']],
    ['result', ['result', jobId]],
  ])('Ctrl-C during a download of %s says how to fetch the result of the finished job', async (_, args) => {
    await using cli = await cliWithScan();
    let killed = 0;
    await using server = await fakeService({
      lines: ['one'],
      onKill: () => killed++,
      override: ({ url }, response) => {
        if (!url.endsWith('/result')) return false;
        response.writeHead(200, { 'content-type': 'application/zip', 'content-length': zip.length });
        response.write(zip.subarray(0, 10));
        return true;
      },
    });
    const running = cli.begin([...args, '-o', path.join(cli.directory, 'out'), '--server', server.url]);
    await until('the first bytes are on the disk', () => hasBegun(cli.directory));
    running.signal('SIGINT');
    const { code, stderr } = await running.ended;
    expect([code, killed]).toEqual([130, 0]);
    const again = `remote-app result ${jobId} -o ${path.join(cli.directory, 'out')} --server ${server.url}`;
    expect(stderr).toContain(`Job ${jobId} is done; '${again}' fetches its result\n`);
    expect(stderr).not.toMatch(/kill/);
  });
});

test('Ctrl-C ends the wait for a lost server at once', async () => {
  await using cli = await cliWithScan();
  const running = await follow(cli, ['logs', jobId]);
  const [chunk] = await once(running.stderr, 'data');
  expect(String(chunk)).toContain('trying again for another 10 min');
  const began = performance.now();
  running.signal('SIGINT');
  const { code, stderr } = await running.ended;
  expect(code).toBe(130);
  expect(stderr).toContain('Interrupted');
  expect(performance.now() - began).toBeLessThan(5000);
});

/** A network between a client and a server that can be down for a while. */
class Network implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  #listener: Server | null = null;
  #port = 0;

  constructor(private readonly target: string) {}

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<void> {
    const { hostname, port } = new URL(this.target);
    this.#listener = createServer((near) => {
      const far = connect(Number(port), hostname);
      for (const socket of [near, far]) this.#sockets.add(socket.on('error', () => {}));
      near.pipe(far).pipe(near);
    });
    await once(this.#listener.listen(this.#port, '127.0.0.1'), 'listening');
    this.#port = (this.#listener.address() as AddressInfo).port;
  }

  async cut(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    if (this.#listener) await once(this.#listener.close(), 'close');
    this.#listener = null;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.cut();
  }
}

test('A job that ends while its server cannot be reached is kept for as long as the command waits', async () => {
  // A job that asks for nothing is removed when it ends.
  await using server = await TestServer.start({ flags: ['--grace', '0'] });
  await using network = new Network(server.url);
  await network.open();
  await using cli = await cliWithScan();
  const gate = server.gate();
  const infer = cli.begin(['infer', 'ct.nii', '--set', `wait=${gate.path}`, '--server', network.url]);
  // The first lines of its log.
  await once(infer.stdout, 'data');
  const [id = ''] = server.jobDirectories();
  await network.cut();
  gate.open();
  expect((await server.api.ended(id)).view.status).toBe('done');
  await network.open();
  const { code, stderr } = await infer.ended;
  expect([code, stderr]).toEqual([0, expect.stringMatching(/trying again[\s\S]*\nSaved \d+ files? in /)]);
});

test('The command visibly waits for a busy server as long as --patience says, and then exits with 6', async () => {
  await using cli = await cliWithScan();
  await using server = await TestServer.start({ flags: ['--max-jobs', '1'] });
  const env = { REMOTE_APP_SERVER: server.url };
  const { gate } = await server.heldJob();
  const impatient = await cli.run(['infer', 'ct.nii', '--patience', '1'], env);
  expect(impatient.code, impatient.stderr).toBe(6);
  expect(impatient.stderr).toMatch(
    /Server busy: .*; trying again for another 1 s\n[\s\S]*Error: Server busy: .*; the server stayed full for 1 s, and no job was created: run the command again later, or have it wait for longer with --patience\n/,
  );
  const patient = cli.begin(['infer', 'ct.nii'], env);
  let told = '';
  patient.stderr.on('data', (chunk: Buffer) => {
    told += chunk;
  });
  await until('it is told', () => /Server busy: .*; trying again for another 10 min\n/.test(told));
  gate.open();
  const { code, stderr } = await patient.ended;
  expect([code, stderr]).toEqual([0, expect.stringMatching(/is accepted[\s\S]*Saved 1 file/)]);
  expect(stderr).not.toContain('starts over');
});
