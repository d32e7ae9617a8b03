/** The entry point of the command line. Loads as little as possible to keep start-up fast. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { keepCode } from './code-cache.js';
import { nameHome } from './home.js';

/** The file of `main`, whose name has a digest; put in by tools/bundle.mjs. */
declare const MAIN_FILE: string;

const bundle = fileURLToPath(new URL('..', import.meta.url));
const root = path.resolve(bundle, '../..');
const description = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const [command = '', ...more] = process.argv.slice(2);

if ((command === '--version' || command === '-v') && more.length === 0) {
  // The same line as oclif's, without loading oclif.
  const { name, version } = description;
  process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') return;
    process.exitCode = 1;
    process.stderr.write(`Error: Cannot write to stdout: ${message}\n`);
  });
  process.stdout.write(`${name}/${version} ${process.platform}-${process.arch} node-${process.version}\n`);
} else {
  // undici parses HTTP with a small WebAssembly program. V8 would optimize it on another thread, and the process waits for
  // that at its end: 80 ms in a command that sends one request.
  setFlagsFromString('--liftoff-only');
  nameHome();
  // By command: each one uses other functions.
  keepCode(bundle, /^[a-z][a-z-]*$/.exec(command)?.[0] ?? 'other');
  const { main } = createRequire(import.meta.url)(path.join(bundle, MAIN_FILE)) as typeof import('./main.js');
  void main(root, description);
}
