import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { lacks } from '../support/needs.mjs';
import { processesNaming } from '../support/processes.js';
import { argumentsOf } from '../support/processes.mjs';
import { apps, TestServer } from '../support/server.js';
import { Sshd } from '../support/sshd.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { zipOf } from '../support/zip.mjs';

const withoutSsh = lacks('ssh', 'sshd');
const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

/** `ssh://gpu/PORT` for a server on this machine. */
const behind = (url: string): string => `ssh://gpu/${new URL(url).port}`;

/** Waits until no process and no file of a tunnel is left. */
async function nothingLeft({ environment: { TMPDIR } }: Sshd): Promise<void> {
  await until('the tunnel is gone', () => processesNaming(TMPDIR).length === 0);
  await until('its socket is gone', () => readdirSync(TMPDIR).length === 0);
}

/** The processes of ssh itself, without the shells that run them. */
const sshProcesses = ({ environment: { TMPDIR } }: Sshd): number[] =>
  processesNaming(`${TMPDIR}/remote-app-ssh`).filter((pid) => argumentsOf(pid)[0]?.endsWith('/ssh'));

/** Starts a command in a process group of its own, as a shell does at a terminal. */
function startGroup(cli: Cli, sshd: Sshd, args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [bin, ...args], {
    cwd: cli.directory,
    detached: true,
    env: { HOME: cli.home, XDG_CONFIG_HOME: cli.home, ...sshd.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

describe.skipIf(withoutSsh)('a server behind ssh', () => {
  test('A server behind ssh can be used for inference, and the tunnel leaves nothing behind', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'volume' });
    await using sshd = await Sshd.start();
    // A server without a token on a loopback address answers only for some host names.
    await using server = await TestServer.start({ apps: [apps.probe] });
    const args = ['infer', 'ct.nii', '--server', behind(server.url)];
    const { code, stderr } = await cli.run(args, sshd.environment);
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/^Job \w+ is accepted.*\nJob \w+ is kept .*\nSaved 1 file/);
    expect(readdirSync(path.join(cli.directory, 'Output'))).toContain('result.zip');
    await nothingLeft(sshd);
  });

  test('login saves a server behind ssh, and messages name it', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    await using server = await fakeService({ token: 'a-token' });
    const address = behind(server.url);
    const login = await cli.run(['login', '--server', address], sshd.environment, 'a-token\n');
    expect([login.code, login.stderr]).toEqual([0, '']);
    expect((await cli.run(['health'], sshd.environment)).stdout).toBe(`${address} is ok\n`);
    await nothingLeft(sshd);
  });

  test('Ctrl-C, which ssh receives as well, still kills the job through the tunnel', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'volume' });
    await using sshd = await Sshd.start();
    let killed = 0;
    await using server = await fakeService({ lines: ['one'], marker: null, onKill: () => killed++ });
    const child = startGroup(cli, sshd, ['infer', 'ct.nii', '--server', behind(server.url)]);
    const [stderr] = await Promise.all([
      text(child.stderr as NodeJS.ReadableStream),
      once(child.stdout as NodeJS.ReadableStream, 'data').then(() =>
        process.kill(-(child.pid ?? 0), 'SIGINT'),
      ),
    ]);
    expect(stderr).toContain(`remote job ${jobId} is killed`);
    expect(killed).toBe(1);
    await nothingLeft(sshd);
  });

  test('SIGKILL of the command also ends the tunnel', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    await using server = await fakeService({ lines: ['one'], marker: null });
    const running = cli.start(['logs', jobId, '--server', behind(server.url)], sshd.environment);
    await once(running.process.stdout, 'data');
    expect(sshProcesses(sshd).length).toBeGreaterThan(0);
    running.process.kill('SIGKILL');
    await nothingLeft(sshd);
  });

  test('A tunnel that breaks is reopened, and no line is lost', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    let printed = () => {};
    const isPrinted = new Promise<void>((resolve) => {
      printed = resolve;
    });
    let cuts = 0;
    const cut = async () => {
      await isPrinted;
      if (cuts++ === 0) for (const pid of sshProcesses(sshd)) process.kill(pid, 'SIGKILL');
      return 'three';
    };
    await using server = await fakeService({ lines: ['one', 'two', cut, 'four'] });
    const running = cli.begin(['logs', jobId, '--server', behind(server.url)], sshd.environment);
    running.stdout.once('data', printed);
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([0, 'one\ntwo\nthree\nfour\n']);
    expect(stderr).toMatch(/broke.*; trying again for another 10 min/);
    await nothingLeft(sshd);
  });

  test('A download survives a tunnel that breaks', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    const result = zipOf({ 'mask.nii': Buffer.alloc(300_000, 'mask') });
    const output = path.join(cli.directory, 'Output');
    /** Bytes that the client has on its disk: what arrives lies in a private directory first. */
    const saved = () =>
      readdirSync(cli.directory, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.includes('.remote-app-'))
        .map((name) => statSync(path.join(cli.directory, name)))
        .reduce((sum, stats) => sum + (stats.isFile() ? stats.size : 0), 0);
    let begun = 0;
    await using server = await fakeService({
      result,
      override: ({ url }, response) => {
        if (!url.endsWith('/result') || begun++ > 0) return false;
        response.writeHead(200, { 'content-type': 'application/zip', 'content-length': result.length });
        response.write(result.subarray(0, 1000));
        // A tunnel that breaks before the first answer is not opened again.
        void until('the first bytes are through', () => saved() >= 1000).then(() => {
          for (const pid of sshProcesses(sshd)) process.kill(pid, 'SIGKILL');
        });
        return true;
      },
    });
    const { code } = await cli.run(['result', jobId, '--server', behind(server.url)], sshd.environment);
    expect(code).toBe(0);
    expect(readdirSync(output).sort()).toEqual(['mask.nii', 'result.zip']);
    await nothingLeft(sshd);
  });
});

describe.skipIf(withoutSsh)('a failure of ssh', () => {
  const health = (cli: Cli, sshd: Sshd, server: string, env: Record<string, string> = {}) =>
    cli.run(['health', '--server', server], { ...sshd.environment, ...env });

  test('The error says that ssh is not installed', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    const bare = path.join(cli.directory, 'bin');
    mkdirSync(bare);
    symlinkSync('/bin/rm', path.join(bare, 'rm'));
    const { code, stderr } = await health(cli, sshd, 'ssh://gpu', { PATH: bare });
    expect(code).toBe(5);
    expect(stderr).toMatch(
      /^Error: ssh:\/\/gpu cannot be reached: the program ssh is not there; install OpenSSH/,
    );
    await nothingLeft(sshd);
  });

  test('The error quotes ssh if the key is refused', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    sshd.makeStrangeKey();
    sshd.configure({ key: 'strange' });
    const { code, stderr } = await health(cli, sshd, 'ssh://gpu');
    expect(code).toBe(4);
    expect(stderr).toMatch(
      /^Error: ssh is not let in at ssh:\/\/gpu; try 'ssh gpu' \(ssh says: .*Permission denied \(publickey.*\)\.\)\n$/,
    );
    await nothingLeft(sshd);
  });

  test('The error quotes ssh if the host key is not known', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    sshd.configure({ known: 'empty' });
    const { code, stderr } = await health(cli, sshd, 'ssh://gpu');
    expect(code).toBe(5);
    expect(stderr).toMatch(
      /^Error: ssh:\/\/gpu cannot be reached: ssh does not know its host key, .*'ssh gpu' once/,
    );
    await nothingLeft(sshd);
  });

  test('The error quotes ssh if the host name is unknown, or if no ssh server listens', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    const nameless = await health(cli, sshd, 'ssh://nobody.invalid');
    expect(nameless.code, nameless.stderr).toBe(5);
    expect(nameless.stderr).toMatch(
      /^Error: ssh:\/\/nobody\.invalid cannot be reached: ssh finds no host nobody\.invalid/,
    );
    await sshd.stop();
    const gone = await health(cli, sshd, 'ssh://gpu');
    expect(gone.code, gone.stderr).toBe(5);
    expect(gone.stderr).toMatch(
      /^Error: ssh:\/\/gpu cannot be reached: no ssh server listens there \(ssh says: /,
    );
    await nothingLeft(sshd);
  });

  test('The error comes at once if nothing listens at the other end', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start();
    const server = await fakeService({});
    await server[Symbol.asyncDispose]();
    const { port } = new URL(server.url);
    const { code, stderr } = await health(cli, sshd, behind(server.url));
    expect(code).toBe(5);
    expect(stderr).toBe(
      `Error: ssh has reached ssh://gpu/${port}, but not 127.0.0.1:${port} from there: nothing listens there; ` +
        'another place is given as ssh://HOST/[HOST:]PORT\n',
    );
    await nothingLeft(sshd);
  });

  test('The error quotes ssh if its server does not allow forwarding', async () => {
    await using cli = await Cli.create();
    await using sshd = await Sshd.start({ settings: ['AllowTcpForwarding no'] });
    const { code, stderr } = await health(cli, sshd, 'ssh://gpu');
    expect(code).toBe(5);
    expect(stderr).toMatch(
      /^Error: ssh:\/\/gpu does not allow ssh to reach 127\.0\.0\.1:8000 from there .*AllowTcpForwarding/,
    );
    await nothingLeft(sshd);
  });
});

test.skipIf(withoutSsh)('Ssh asks for a passphrase at the terminal, without a time limit', async () => {
  await using cli = await Cli.create();
  await using sshd = await Sshd.start({ passphrase: 'open sesame' });
  await using server = await fakeService({});
  const words = [process.execPath, bin, 'health', '--timeout', '2', '--server', behind(server.url)];
  const child = spawn('script', ['-qec', words.map((word) => `'${word}'`).join(' '), '/dev/null'], {
    cwd: cli.directory,
    env: { HOME: cli.home, XDG_CONFIG_HOME: cli.home, TERM: 'xterm', ...sshd.environment },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let screen = '';
  child.stdout.on('data', (chunk) => {
    screen += chunk;
  });
  await until('ssh asks', () => screen.includes('Enter passphrase for key'));
  child.stdin.write('open sesame\n');
  const [code] = await once(child, 'close');
  expect([code, screen]).toEqual([0, expect.stringContaining(' is ok')]);
  expect(screen).not.toContain('sesame');
  await nothingLeft(sshd);
});
