import { spawn } from 'node:child_process';
import { bin } from './server.mjs';
import { within } from './until.mjs';

/** Runs `remote-app` as a person does; resolves with how it ended and what it printed. */
export async function remoteApp(
  context,
  words,
  { url, token, environment = {}, onLine, limit = 180_000 } = {},
) {
  const child = spawn(process.execPath, [bin, ...words], {
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
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
    onLine?.(stdout);
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise((resolve) => child.once('close', (code) => resolve(code)));
  const code = await within(`remote-app ${words[0]} ends`, ended, limit).catch((cause) => {
    child.kill('SIGKILL');
    throw new Error(`${cause.message}; it had said: ${stderr.slice(-800)}`);
  });
  return { code, stdout, stderr };
}
