import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const requirements = readFileSync(here('requirements.txt'), 'utf8');

/** Where the virtual environment is: 6 GB that are kept from one run to the next. */
const directory = path.resolve(process.env.REMOTE_APP_KONFAI_VENV ?? here('../../.cache/konfai'));

/** What was installed, written when all of it was: an installation that was broken off starts over. */
const mark = path.join(directory, 'installed.txt');

/** Why these tests cannot run on this machine, which is no fault of the product. */
export class Skipped extends Error {}

/** A program of the environment: `konfai-apps`, `python`. */
export const programOf = (name) => path.join(directory, 'bin', name);

/** The PATH with KonfAI's programs in front: `serve` and KonfAI's server find the engine there. */
export const withPrograms = `${path.join(directory, 'bin')}:${process.env.PATH}`;

/** PATH on which `konfai-apps` is the program of `test/konfai/engine`, and `nvidia-smi` the imitation of the tests. */
export const withStandIns = [here('engine'), here('../fixtures/bin'), withPrograms].join(':');

const lastLine = (text) => text.trim().split('\n').at(-1) ?? '';

const pip = (...words) =>
  execute(programOf('python'), ['-m', 'pip', '--disable-pip-version-check', '--no-input', ...words], {
    maxBuffer: 1 << 26,
  });

/**
 * Removes an environment that is not whole, and nothing else: the directory is one that Python made as a virtual
 * environment, or is empty, or not there.
 * @throws where it holds something else, since a variable names it
 */
function clear() {
  const isOurs = !existsSync(directory) || existsSync(path.join(directory, 'pyvenv.cfg'));
  if (!isOurs && readdirSync(directory).length > 0) {
    throw new Error(
      `${directory} holds other files: name a new or empty directory in REMOTE_APP_KONFAI_VENV`,
    );
  }
  rmSync(directory, { recursive: true, force: true });
}

/** What pip says of an index that it does not reach; of one without the package it says only that. */
const unreached = /Retrying|connection (error|broken)|could not fetch url|timed out|name resolution/i;

/** Asks for one small package without the others, to tell a package index out of reach from a failed installation. */
async function needsIndex() {
  const one = requirements
    .trim()
    .split('\n')
    .find((line) => line.startsWith('konfai-apps'))
    .replace(/\[.*\]/, '');
  const target = path.join(directory, 'download');
  try {
    await pip('download', '--retries', '1', '--timeout', '15', '--no-deps', '--dest', target, one);
  } catch (cause) {
    const why = cause.stderr ?? cause.message;
    clear();
    if (!unreached.test(why)) throw new Error(`pip does not install ${one}: ${why}`);
    throw new Skipped(`pip reaches no package index that has ${one}: ${lastLine(why)}`);
  }
}

/**
 * The virtual environment with KonfAI's programs, made at the first run and found at the next.
 * @throws {Skipped} where there is no Python that makes one, or pip reaches no package index
 */
export async function prepareEnvironment(say) {
  if (existsSync(mark) && readFileSync(mark, 'utf8') === requirements) return;
  clear();
  mkdirSync(directory, { recursive: true });
  try {
    await execute('python3', ['-m', 'venv', directory]);
  } catch (cause) {
    clear();
    throw new Skipped(`python3 makes no virtual environment: ${lastLine(cause.stderr || cause.message)}`);
  }
  await needsIndex();
  say(`Installing KonfAI and PyTorch in ${directory}: about 6 GB, a few minutes`);
  try {
    await pip('install', '--requirement', here('requirements.txt'));
  } catch (cause) {
    throw new Error(`KonfAI was not installed: ${(cause.stderr ?? cause.message).slice(-2000)}`);
  }
  writeFileSync(mark, requirements);
}
