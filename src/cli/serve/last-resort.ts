import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Seconds after which the process is killed, and seconds after it was told to hurry. */
const patience = { normal: 9, hurried: 1 };

/**
 * A shell script that reads a pipe whose other end this process holds. The pipe ends when the process has ended; a line in
 * it means that the process must end now. `timeout` returns 124 (or 143) if neither came in time.
 */
const script = `
waitFor() { timeout "$1" sh -c 'read -r line'; }
waitFor ${patience.normal}
code=$?
if [ $code -eq 0 ]; then
  waitFor ${patience.hurried}
  code=$?
fi
case $code in 124 | 143) kill -9 "$1" ;; esac
`;

/**
 * Kills this process if it has not ended in time, from another process: a main thread that is blocked in a system call runs
 * no timer, and any other blocked thread keeps Node from exiting.
 */
export class LastResort {
  readonly #helper: ChildProcessByStdio<Writable, null, null>;

  constructor() {
    // Not execa: this process ends before its helper, must not wait for it, and loads nothing more once it is to end.
    this.#helper = spawn('sh', ['-c', script, 'sh', String(process.pid)], {
      cwd: '/',
      // Detached, so that a second Ctrl-C in the terminal does not end it.
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { PATH: `${process.env.PATH ?? ''}:/usr/bin:/bin` },
    });
    // If it cannot be started the server has to do without it.
    this.#helper.on('error', () => {});
    this.#helper.stdin?.on('error', () => {});
    this.#helper.unref();
    Object(this.#helper.stdin).unref?.();
  }

  /** Says that the process is about to end: it is killed if that takes more than a second. */
  hurry(): void {
    this.#helper.stdin?.write('\n');
  }
}
