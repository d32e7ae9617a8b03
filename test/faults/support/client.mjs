import { spawn } from 'node:child_process';
import { bin } from './server.mjs';
import { within } from './until.mjs';

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
