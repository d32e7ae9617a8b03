/**
 * Carries out the plan in the JSON file that `--set plan=` names: a list of steps, each `{do, base, name, ...}`.
 * A path is a base directory (`output`, `job`, `workspace`) and a name in base64, because a name may hold any byte.
 */
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const words = process.argv.slice(2);
const after = (flag) => words[words.indexOf(flag) + 1];
const plan = JSON.parse(fs.readFileSync(after('--set').slice('plan='.length), 'utf8'));
const output = after('--output');
const bases = { output, job: path.dirname(output), workspace: process.cwd(), absolute: '' };

const pathOf = ({ base = 'output', name = '' }) =>
  Buffer.concat([
    Buffer.from(name === '' || base === 'absolute' ? bases[base] : `${bases[base]}/`),
    Buffer.from(name, 'base64'),
  ]);

const steps = {
  file: (step, at) => fs.writeFileSync(at, Buffer.from(step.content, 'base64')),
  directory: (_step, at) => fs.mkdirSync(at, { recursive: true }),
  link: (step, at) => fs.symlinkSync(Buffer.from(step.target, 'base64'), at),
  hardLink: (step, at) => fs.linkSync(pathOf({ base: step.base, name: step.target }), at),
  fifo: (_step, at) => spawnSync('mkfifo', ['--', at.toString()]),
  socket: async (_step, at) => {
    const server = createServer().listen(at.toString());
    await delay(50);
    // The socket's file remains if the process ends without closing it.
    server.unref();
  },
  mode: (step, at) => fs.chmodSync(at, step.mode),
  remove: (_step, at) => fs.rmSync(at, { recursive: true, force: true }),
  print: (step) => fs.writeSync(1, `${step.text}\n`),
  /** Many files of one byte each. */
  many: (step, at) => {
    fs.mkdirSync(at, { recursive: true });
    for (let index = 0; index < step.count; index += 1) fs.writeFileSync(`${at}/${index}`, 'x');
  },
  /** Nested directories, so that the whole path is longer than a system call accepts. */
  abyss: (step, at) => {
    const before = process.cwd();
    process.chdir(at.toString());
    for (let depth = 0; depth < step.depth; depth += 1) {
      fs.mkdirSync('d'.repeat(200));
      process.chdir('d'.repeat(200));
    }
    fs.writeFileSync('bottom', 'x');
    process.chdir(before);
  },
  /** Waits until a file exists. */
  wait: async (step) => {
    while (!fs.existsSync(step.file)) await delay(20);
  },
};

for (const step of plan) {
  try {
    await steps[step.do](step, pathOf(step));
  } catch (cause) {
    fs.writeSync(1, `could not ${step.do}: ${cause.code}\n`);
  }
}
process.exit(0);
