import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Seconds after which the process is killed, and after which once it is told to hurry. */
const patience = { normal: 9, hurried: 1 };

/**
 * Waits on a pipe whose other end this process holds: nothing comes but the end, when the process has ended. A line
 * says that it ought to end now. `timeout` answers 124 (or 143) where there was neither in time.
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
 * Kills this process when it has not ended in time, from a process of its own: a thread that is blocked in a call of
 * the system keeps Node from running a timer, or, where it is another thread than the main one, from ending at all.
 */
export class LastResort {
  readonly #helper: ChildProcessByStdio<Writable, null, null>;

  constructor() {
    // Not execa: this process ends before its helper, must not wait for it, and loads nothing more once it is to end.
    this.#helper = spawn('sh', ['-c', script, 'sh', String(process.pid)], {
      cwd: '/',
      // A terminal's second Ctrl-C is not for it.
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { PATH: `${process.env.PATH ?? ''}:/usr/bin:/bin` },
    });
    // It is no fault that the server could mend if this cannot be started.
    this.#helper.on('error', () => {});
    this.#helper.stdin?.on('error', () => {});
    this.#helper.unref();
    Object(this.#helper.stdin).unref?.();
  }

  /** The process ends now: it is killed where that takes more than a second. */
  hurry(): void {
    this.#helper.stdin?.write('\n');
  }
}
