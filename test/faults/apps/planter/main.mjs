/**
 * Carries out the plan in the JSON file that `--set plan=` names: a list of steps, each `{do, base, name, ...}`.
 * A path is a base directory (`output`, `job`, `workspace`) and a name in base64, because a name may hold any byte.
 */
import * as fs from 'node:fs';
import path from 'node:path';

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
  mode: (step, at) => fs.chmodSync(at, step.mode),
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
};

for (const step of plan) {
  try {
    await steps[step.do](step, pathOf(step));
  } catch (cause) {
    fs.writeSync(1, `could not ${step.do}: ${cause.code}\n`);
  }
}
process.exit(0);
