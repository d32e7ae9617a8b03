/** Where a process of the command line begins. It loads as little as it can: a person waits for it. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { keepCode } from './code-cache.js';

/** The file of `main`, whose name has a digest; put in by tools/bundle.mjs. */
declare const MAIN_FILE: string;

const bundle = fileURLToPath(new URL('..', import.meta.url));
const root = path.resolve(bundle, '../..');
const description = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const [command = '', ...more] = process.argv.slice(2);

if (command === '--version' && more.length === 0) {
  // As oclif says it, without loading all of oclif for one line.
  const { name, version } = description;
  process.stdout.write(`${name}/${version} ${process.platform}-${process.arch} node-${process.version}\n`);
} else {
  // undici reads HTTP with a small WebAssembly program. V8 would go on to optimize it on another thread, which the
  // end of the process waits for: 80 ms of a command that asks one question.
  setFlagsFromString('--liftoff-only');
  // What one command compiles is of little use to another.
  keepCode(bundle, /^[a-z][a-z-]*$/.exec(command)?.[0] ?? 'other');
  const { main } = createRequire(import.meta.url)(path.join(bundle, MAIN_FILE)) as typeof import('./main.js');
  void main(root, description);
}
