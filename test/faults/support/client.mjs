import { spawn } from 'node:child_process';
import { bin } from './server.mjs';
import { within } from './until.mjs';

/** Copies what a program writes to a terminal to stdout, byte for byte, and ends with its exit code. */
const recorder = `
import fcntl, os, pty, struct, sys, termios
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 200, 0, 0))
while True:
    try:
        data = os.read(master, 65536)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
`;

/** Words to put before a command whose terminal is to be recorded. */
const recorded = ['python3', '-c', recorder];

/**
 * Starts `remote-app`; `ended` resolves with how it ended and what it printed.
 * @param launcher words put before the command
 */
export function startRemoteApp(context, words, { url, token, environment = {}, onLine, launcher = [] } = {}) {
  const all = [...launcher, process.execPath, bin, ...words];
  const child = spawn(all[0], all.slice(1), {
    cwd: context.scratch,
    env: {
      HOME: context.scratch,
      PATH: process.env.PATH,
      CI: '1',
      ...(url === undefined ? {} : { REMOTE_APP_SERVER: url }),
      ...(token ? { SERVICE_API_TOKEN: token } : {}),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => {
    said.stdout += chunk;
    onLine?.(said.stdout);
  });
  child.stderr.on('data', (chunk) => {
    said.stderr += chunk;
  });
  const ended = new Promise((resolve) => child.once('close', (code) => resolve({ code, ...said })));
  return { child, ended, said };
}

/** Runs `remote-app`; resolves with how it ended and what it printed. */
export async function remoteApp(context, words, { limit = 180_000, ...options } = {}) {
  const { child, ended, said } = startRemoteApp(context, words, options);
  return within(`remote-app ${words[0]} ends`, ended, limit).catch((cause) => {
    child.kill('SIGKILL');
    throw new Error(`${cause.message}; it had said: ${said.stderr.slice(-800)}`);
  });
}

/** The same on a terminal; resolves with its exit code and every byte that reached the terminal, as UTF-8. */
export async function remoteAppOnTerminal(context, words, { url, limit = 30_000 }) {
  const all = [...recorded, process.execPath, bin, ...words];
  const child = spawn(all[0], all.slice(1), {
    cwd: context.scratch,
    env: { HOME: context.scratch, PATH: process.env.PATH, TERM: 'xterm-256color', REMOTE_APP_SERVER: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pieces = [];
  child.stdout.on('data', (piece) => pieces.push(piece));
  const ended = new Promise((resolve) => child.once('close', (code) => resolve(code)));
  const code = await within(`remote-app ${words[0]} ends on a terminal`, ended, limit).catch((cause) => {
    child.kill('SIGKILL');
    throw cause;
  });
  return { code, output: Buffer.concat(pieces).toString() };
}
