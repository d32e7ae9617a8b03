// @ts-check
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from './until.mjs';

/** Milliseconds within which a worker has to answer. */
const patience = 120_000;

/**
 * @typedef {object} JobEnd
 * @property {string} log all that the worker had printed when it answered
 * @property {unknown} answer
 * @property {string} directory of the job
 */

/** A FIFO as two ends, which no name leads to any more. @param {string} file */
function openPipe(file) {
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(file, constants.O_WRONLY);
  // The worker's end must block: that of a FIFO is as it was opened.
  const blocking = openSync(file, constants.O_RDONLY);
  rmSync(file);
  return { reader, blocking, writer };
}

/** @typedef {ReturnType<typeof openPipe>} Pipe */

/**
 * The server's side of a resident app, for tests: starts it as a server does, gives it jobs, and reads its answers. It looks
 * at the log at the moment of an answer, so that what comes later is missed.
 */
export class ResidentWorker {
  #answers = /** @type {string[]} */ ([]);
  #rest = '';
  #root = mkdtempSync(path.join(tmpdir(), 'remote-app-worker-'));
  #home = path.join(this.#root, 'home');
  /** @type {number} */
  #log;
  /** @type {number} */
  #jobs;
  /** @type {import('node:child_process').ChildProcess} */
  child;

  /**
   * @param {readonly string[]} command with `resident`, the app and its devices
   * @param {Record<string, string>} environment
   */
  constructor([program = '', ...words], environment = {}) {
    mkdirSync(this.#home);
    const pipes = ['jobs', 'answers', 'log'].map((name) => path.join(this.#root, name));
    execFileSync('mkfifo', ['-m', '600', ...pipes]);
    const [jobs, answers, output] = /** @type {[Pipe, Pipe, Pipe]} */ (pipes.map(openPipe));
    [this.#jobs, this.#log] = [jobs.writer, output.reader];
    this.child = spawn(program, words, {
      cwd: this.#home,
      stdio: [jobs.blocking, output.writer, output.writer, answers.writer],
      env: { PATH: process.env.PATH, TMPDIR: this.#home, REMOTE_APP_ANSWERS: '/dev/fd/3', ...environment },
    });
    const ours = [
      jobs.reader,
      jobs.blocking,
      answers.blocking,
      answers.writer,
      output.blocking,
      output.writer,
    ];
    for (const descriptor of ours) closeSync(descriptor);
    new Socket({ fd: answers.reader, readable: true, writable: false })
      .setEncoding('utf8')
      .on('data', (text) => {
        const lines = (this.#rest + text).split('\n');
        this.#rest = lines.pop() ?? '';
        this.#answers.push(...lines);
      });
  }

  get #hasEnded() {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** What was printed since this was last asked. */
  printed() {
    const buffer = Buffer.alloc(1 << 16);
    let text = '';
    for (;;) {
      let count = 0;
      try {
        count = readSync(this.#log, buffer);
      } catch (cause) {
        if (Object(cause).code !== 'EAGAIN') throw cause;
      }
      if (count === 0) return text;
      text += buffer.toString('utf8', 0, count);
    }
  }

  /** The next answer. @throws if the worker ends, or takes longer than `limit` milliseconds */
  async answer(limit = patience) {
    const next = () => {
      if (this.#answers.length > 0) return true;
      if (this.#hasEnded) throw new Error(`The worker has ended: ${this.printed()}`);
      return false;
    };
    await until('the worker answers', next, limit, 2);
    return JSON.parse(this.#answers.shift() ?? '');
  }

  /**
   * Gives it a job, and waits for the answer.
   * @param {readonly string[]} words
   * @param {{ directory?: string, environment?: Record<string, string>, job?: string, limit?: number }} [options]
   * @returns {Promise<JobEnd>}
   */
  async run(words, { limit, ...options } = {}) {
    const directory = this.begin(words, options);
    const answer = await this.answer(limit);
    return { log: this.printed(), answer, directory };
  }

  /**
   * Gives it a job. @returns the job's directory
   * @param {readonly string[]} words
   * @param {{ directory?: string, environment?: Record<string, string>, job?: string }} [options]
   */
  begin(words, { directory, environment = {}, job = randomBytes(6).toString('hex') } = {}) {
    const place = directory ?? mkdtempSync(path.join(this.#root, 'job-'));
    writeSync(this.#jobs, `${JSON.stringify({ job, arguments: words, directory: place, environment })}\n`);
    return place;
  }

  /** Closes stdin, or sends a signal; resolves with how the worker ends. @param {NodeJS.Signals} [signal] */
  async end(signal) {
    const exit = this.#hasEnded ? null : once(this.child, 'exit');
    if (signal) this.child.kill(signal);
    else closeSync(this.#jobs);
    await exit;
    return this.child.signalCode ?? this.child.exitCode;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  /** Ends it, if it has not ended, and removes what was made for it. */
  async close() {
    if (!this.#hasEnded) await this.end('SIGKILL');
    closeSync(this.#log);
    rmSync(this.#root, { recursive: true, force: true });
  }
}
