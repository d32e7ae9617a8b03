import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Why something that needs Python cannot run on this machine, which is no fault of the product. */
export class Skipped extends Error {}

/** What pip says of an index that it does not reach; of one without the package it says only that. */
const unreached = /Retrying|connection (error|broken)|could not fetch url|timed out|name resolution/i;

const lastLine = (text) => text.trim().split('\n').at(-1) ?? '';

/** A virtual environment of Python, which is made at the first run and found at the next. */
export class PythonEnvironment {
  #directory;
  #requirements;
  #options;

  /**
   * @param directory where it is
   * @param options `requirements`, the file of pip that lists what it has; `probe`, the smallest package of it; `variable`, by
   *   which a person may name another directory; `what` is installed, and `size`, how large it is
   */
  constructor(directory, options) {
    this.#directory = path.resolve(process.env[options.variable] ?? directory);
    this.#requirements = readFileSync(options.requirements, 'utf8');
    this.#options = options;
  }

  /** A program of the environment: `python`. */
  programOf(name) {
    return path.join(this.#directory, 'bin', name);
  }

  /**
   * Makes the environment, unless it is there.
   * @param say called with a line before a long installation
   * @throws {Skipped} where there is no Python that makes one, or pip reaches no package index
   */
  async prepare(say) {
    // Written when all was installed: an installation that was broken off starts over.
    const mark = path.join(this.#directory, 'installed.txt');
    if (existsSync(mark) && readFileSync(mark, 'utf8') === this.#requirements) return;
    this.#clear();
    mkdirSync(this.#directory, { recursive: true });
    try {
      await execute('python3', ['-m', 'venv', this.#directory]);
    } catch (cause) {
      this.#clear();
      throw new Skipped(`python3 makes no virtual environment: ${lastLine(cause.stderr || cause.message)}`);
    }
    await this.#needIndex();
    say(`Installing ${this.#options.what} in ${this.#directory}: ${this.#options.size}, a few minutes`);
    try {
      await this.#pip('install', '--requirement', this.#options.requirements);
    } catch (cause) {
      const why = (cause.stderr ?? cause.message).slice(-2000);
      throw new Error(`The packages of ${this.#options.requirements} were not installed: ${why}`);
    }
    writeFileSync(mark, this.#requirements);
  }

  #pip(...words) {
    const all = ['-m', 'pip', '--disable-pip-version-check', '--no-input', ...words];
    return execute(this.programOf('python'), all, { maxBuffer: 1 << 26 });
  }

  /**
   * Removes an environment that is not whole, and nothing else: the directory is one that Python made as a virtual
   * environment, or is empty, or not there.
   * @throws where it holds something else, since a variable names it
   */
  #clear() {
    const isOurs = !existsSync(this.#directory) || existsSync(path.join(this.#directory, 'pyvenv.cfg'));
    if (!isOurs && readdirSync(this.#directory).length > 0)
      throw new Error(
        `${this.#directory} holds other files: name a new or empty directory in ${this.#options.variable}`,
      );
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Asks for one small package without the others, to tell a package index out of reach from a failed installation. */
  async #needIndex() {
    const one = this.#requirements
      .trim()
      .split('\n')
      .find((line) => line.startsWith(this.#options.probe))
      .replace(/\[.*\]/, '');
    const target = path.join(this.#directory, 'download');
    try {
      await this.#pip('download', '--retries', '1', '--timeout', '15', '--no-deps', '--dest', target, one);
    } catch (cause) {
      const why = cause.stderr ?? cause.message;
      this.#clear();
      if (!unreached.test(why)) throw new Error(`pip does not install ${one}: ${why}`);
      throw new Skipped(`pip reaches no package index that has ${one}: ${lastLine(why)}`);
    }
  }
}
