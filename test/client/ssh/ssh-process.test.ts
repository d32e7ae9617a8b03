import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { readServerUrl, readSshAddress } from '../../../src/client/connection/index.js';
import { SshTunnel } from '../../../src/client/ssh/index.js';
import { SshProcess } from '../../../src/client/ssh/ssh-process.js';
import { tokenVariable } from '../../../src/contract/index.js';
import { temporary } from '../../support/temporary.js';

/** A program in the place of ssh, which does this, and a temporary directory of its own. */
async function fakeSsh(script: string) {
  const directory = await temporary();
  const program = path.join(directory.path, 'ssh');
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o755);
  vi.stubEnv('PATH', `${directory.path}:${process.env.PATH}`);
  vi.stubEnv('TMPDIR', directory.path);
  vi.stubEnv(tokenVariable, 'secret');
  onTestFinished(() => void vi.unstubAllEnvs());
  const sockets = () => readdirSync(directory.path).filter((name) => name.startsWith('remote-app-ssh-'));
  return Object.assign(directory, { sockets, at: (name: string) => path.join(directory.path, name) });
}

const addressOf = (text: string) => readSshAddress(readServerUrl(text));

/** Opens what its tunnel begins at, and stays until it is ended. */
const opens = `
while [ "$1" != -L ]; do shift; done
: > "\${2%%:*}"
exec sleep 60`;

test('Ssh gets the target of the tunnel and the login name, and uses no shared connection', async () => {
  await using fake = await fakeSsh(`
printf '%s\\n' "$@" > "$TMPDIR/arguments"
env | grep -c secret > "$TMPDIR/secrets"${opens}`);
  const begin = async (text: string, isAgain: boolean) => {
    const ssh = new SshProcess(addressOf(text), { timeout: 2.5, isAgain, onWords: () => {} });
    await ssh.ready();
    expect(statSync(path.dirname(ssh.socket)).mode & 0o777).toBe(0o700);
    expect([fake.sockets().length, ssh.hasEnded]).toEqual([1, false]);
    await ssh.close();
    expect([existsSync(path.dirname(ssh.socket)), ssh.hasEnded]).toEqual([false, true]);
    return readFileSync(fake.at('arguments'), 'utf8').trim().replace(ssh.socket, 'SOCKET').split('\n');
  };
  const options = (...more: readonly string[]) =>
    [
      ...['ControlPath=none', 'ClearAllForwardings=no', 'ExitOnForwardFailure=no', 'ConnectTimeout=3'],
      ...['ServerAliveInterval=15', 'ServerAliveCountMax=3', ...more],
    ].flatMap((each) => ['-o', each]);
  expect(await begin('ssh://gpu', false)).toEqual([
    ...['-N', '-T', ...options(), '-L', 'SOCKET:127.0.0.1:8000', '--', 'gpu'],
  ]);
  expect(readFileSync(fake.at('secrets'), 'utf8')).toBe('0\n');
  expect(await begin('ssh://ana@gpu:2222/node3:9000', true)).toEqual([
    ...[
      '-N',
      '-T',
      ...options('BatchMode=yes'),
      '-L',
      'SOCKET:node3:9000',
      '-p',
      '2222',
      '-l',
      'ana',
      '--',
      'gpu',
    ],
  ]);
});

const says = (words: string) => ` (ssh says: ${words})`;
const refused = 'ana@gpu: Permission denied (publickey).';
test.each([
  [
    'Connection refused',
    'ssh://gpu',
    `ssh://gpu cannot be reached: no ssh server listens there${says('Connection refused')}`,
    { fault: 'unreached', exitCode: 5 },
  ],
  [
    'Connection refused',
    'ssh://gpu:2222',
    `ssh://gpu:2222 cannot be reached: no ssh server listens there, on port 2222${says('Connection refused')}`,
    { fault: 'unreached' },
  ],
  [
    'No ED25519 host key is known for gpu',
    'ssh://ana@gpu:22',
    'ssh://ana@gpu:22 cannot be reached: ssh does not know its host key, or another one; run ' +
      `'ssh -p 22 ana@gpu' once and compare the key with its admin's${says('No ED25519 host key is known for gpu')}`,
    { fault: 'unusable' },
  ],
  [
    'one\\n  two \\n\\ndebug1: x\\nthree\\n** WARNING: x\\nWarning: Permanently added x',
    'ssh://gpu',
    `ssh://gpu cannot be reached: ssh ended with exit code 7${says('two; three')}`,
    { fault: 'unreached' },
  ],
  ['', 'ssh://gpu', 'ssh://gpu cannot be reached: ssh ended with exit code 7', { fault: 'unreached' }],
  [refused, 'ssh://gpu', `ssh is not let in at ssh://gpu; try 'ssh gpu'${says(refused)}`, { exitCode: 4 }],
])('The end of ssh is explained by its last words: %j, %s', async (words, text, message, more) => {
  await using _fake = await fakeSsh(`printf '${words}' >&2; exit 7`);
  const ssh = new SshProcess(addressOf(text), { timeout: 5, isAgain: false, onWords: () => {} });
  await expect(ssh.ready()).rejects.toMatchObject({ message, ...more });
  expect(await ssh.ended).toBe(7);
});

test('A refused key is reported as unusable if nobody was asked for a password', async () => {
  await using _fake = await fakeSsh(`echo '${refused}' >&2; exit 255`);
  const ssh = new SshProcess(addressOf('ssh://gpu'), { timeout: 5, isAgain: true, onWords: () => {} });
  await expect(ssh.ready()).rejects.toMatchObject({
    fault: 'unusable',
    message: `ssh is not let in at ssh://gpu without asking for a password; try 'ssh gpu'${says(refused)}`,
  });
});

test('If no shell can open the tunnel, as on Windows, the error says what to do by hand', () => {
  const ssh = new SshProcess(addressOf('ssh://ana@gpu/node3:9000'), {
    ...{ timeout: 5, isAgain: false, onWords: () => {} },
  });
  onTestFinished(() => ssh.close());
  expect(ssh.explain(null)).toMatchObject({
    fault: 'unusable',
    message:
      'An address of ssh:// needs a Unix shell, and none can be started here; ' +
      "run 'ssh ana@gpu -N -L 9000:node3:9000' in another terminal, and use --server http://127.0.0.1:9000",
  });
});

test('What ssh prints while it waits for a person is passed on once, line by line', async () => {
  await using _fake = await fakeSsh("printf 'Log in at https://x \\n\\nand enter 7' >&2; exec sleep 60");
  const told: string[] = [];
  const ssh = await new Promise<SshProcess>((resolve) => {
    const waiting = new SshProcess(addressOf('ssh://gpu'), {
      ...{ timeout: 5, isAgain: false },
      onWords: (line) => told.push(line) === 2 && resolve(waiting),
    });
  });
  expect(told).toEqual(['Log in at https://x', 'and enter 7']);
  await ssh.close();
});

test('The reason why ssh refused the last connection through the tunnel is reported once', async () => {
  const failed = (number: number, why: string) => `channel ${number}: open failed: ${why}`;
  await using fake = await fakeSsh(
    `printf '${failed(2, 'administratively prohibited: x')}\\n${failed(3, 'connect failed: Connection refused')}\\n' >&2
: > "$TMPDIR/said"${opens}`,
  );
  const ssh = new SshProcess(addressOf('ssh://gpu'), { timeout: 5, isAgain: false, onWords: () => {} });
  await ssh.ready();
  await vi.waitFor(() => expect(existsSync(fake.at('said'))).toBe(true));
  const taken = await vi.waitUntil(() => ssh.takeRefusal());
  expect([taken, ssh.takeRefusal()]).toEqual(['connect failed: Connection refused', null]);
  await ssh.close();
});

test('A tunnel is opened once, again when it has ended, and not when it was closed', async () => {
  await using fake = await fakeSsh(`echo run >> "$TMPDIR/runs"
printf '%s\\n' "$@" | grep -c BatchMode >> "$TMPDIR/asked"${opens}`);
  const tunnel = new SshTunnel(addressOf('ssh://gpu/9000'), 5, () => {});
  expect([tunnel.name, tunnel.base.href]).toEqual(['ssh://gpu/9000', 'http://127.0.0.1:9000/']);
  const stopped = new Error('stop');
  await expect(tunnel.start(AbortSignal.abort(stopped))).rejects.toBe(stopped);
  expect(existsSync(fake.at('runs'))).toBe(false);
  const { signal } = new AbortController();
  await Promise.all([tunnel.start(signal), tunnel.start(signal)]);
  expect(readFileSync(fake.at('runs'), 'utf8')).toBe('run\n');
  // No socket listens there.
  await expect(tunnel.open()).rejects.toMatchObject({
    fault: 'broken',
    message: expect.stringMatching(/^The ssh connection to ssh:\/\/gpu\/9000 broke: /),
  });
  const [directory = ''] = fake.sockets();
  const socket = fake.at(`${directory}/socket`);
  rmSync(socket);
  const server = createServer((connection) => connection.end('hello')).listen(socket);
  await new Promise((resolve) => server.once('listening', resolve));
  const opened = await tunnel.open();
  expect(String(await new Promise((resolve) => opened.once('data', resolve)))).toBe('hello');
  opened.destroy();
  server.close();
  await tunnel.close();
  await expect(tunnel.open()).rejects.toMatchObject({
    fault: 'broken',
    message: 'The ssh connection to ssh://gpu/9000 is closed',
  });
  expect([readFileSync(fake.at('runs'), 'utf8'), readFileSync(fake.at('asked'), 'utf8')]).toEqual([
    'run\n',
    '0\n',
  ]);
});

test('The socket of a tunnel has a path that ssh accepts literally and that is short enough for a socket', async () => {
  await using fake = await fakeSsh('exit 1');
  const usual = process.env.TMPDIR ?? '';
  const socketIn = async (directory: string) => {
    mkdirSync(directory, { recursive: true });
    vi.stubEnv('TMPDIR', directory);
    const ssh = new SshProcess(addressOf('ssh://gpu'), { timeout: 5, isAgain: false, onWords: () => {} });
    await ssh.ended;
    return path.dirname(path.dirname(ssh.socket));
  };
  expect(await socketIn(usual)).toBe(usual);
  expect(await socketIn(fake.at('with blanks'))).toBe('/tmp');
  expect(await socketIn(fake.at('x'.repeat(80)))).toBe('/tmp');
});

test('A tunnel whose ssh has ended is reported as broken, and other causes are not', async () => {
  await using fake = await fakeSsh(`
while [ "$1" != -L ]; do shift; done
: > "\${2%%:*}"
while [ ! -e "$TMPDIR/end" ]; do sleep 0.05; done`);
  const tunnel = new SshTunnel(addressOf('ssh://gpu'), 5, () => {});
  const closed = Object.assign(new Error('x'), { code: 'ECONNRESET' });
  expect(await tunnel.explain(closed)).toBeNull();
  await tunnel.start(new AbortController().signal);
  writeFileSync(fake.at('end'), '');
  const why = await vi.waitUntil(() => tunnel.explain(closed), { timeout: 20_000 });
  expect(why).toMatchObject({ fault: 'broken', message: 'The ssh connection to ssh://gpu broke' });
  expect(await tunnel.explain(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }))).toBeNull();
  await tunnel.close();
});
