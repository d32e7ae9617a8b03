import { once } from 'node:events';
import { programOf } from './environment.mjs';
import { bin, environment } from './servers.mjs';

/** Runs a program to its end; what it printed, on either stream, in one text. */
export async function runProgram(workshop, [program, ...words], cwd, env = {}) {
  const child = workshop.start(program, words, {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...environment, ...env },
  });
  let printed = '';
  let stdout = '';
  child.stdout.on('data', (chunk) => {
    printed += chunk;
    stdout += chunk;
  });
  child.stderr.on('data', (chunk) => {
    printed += chunk;
  });
  const [code, signal] = await once(child, 'close');
  return { code: code ?? signal, printed, stdout };
}

/** `remote-app`, which takes the app by a flag. */
const ours = {
  name: 'our client',
  words: (server, app, operation, output) => [
    ...[process.execPath, bin, ...operation.ours],
    ...['--app', app, '--cpu', '1', '--server', server.url, '--output', output],
    ...(server.token ? ['--token', server.token] : []),
  ],
};

/** `konfai-apps`, which takes the app, and the name of a fine-tuning, as arguments. */
const theirs = {
  name: 'their client',
  words: (server, app, { theirs: [verb, ...rest] }, output) => [
    ...[programOf('konfai-apps'), verb, app, ...rest],
    ...[
      '--cpu',
      '1',
      '--host',
      '127.0.0.1',
      '--port',
      server.port,
      '--token',
      server.token,
      '--output',
      output,
    ],
  ],
};

export const clients = [ours, theirs];
