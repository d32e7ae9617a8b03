import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';
import { exitCodes } from '../../contract/index.js';

/** Seconds until the process is killed, and seconds once it is about to end. */
const longest = { normal: 9, hurried: 1 };

/**
 * A shell script that reads a pipe whose other end this process holds. The pipe ends when the process has ended; a line in
 * it means that the process must end now. `timeout` returns 124 (or 143) if neither came in time.
 */
const script = `
waitFor() { timeout "$1" sh -c 'read -r line'; }
waitFor ${longest.normal}
code=$?
if [ $code -eq 0 ]; then
  waitFor ${longest.hurried}
  code=$?
fi
case $code in 124 | 143) kill -9 "$1" ;; esac
`;

/**
 * A separate process that kills this one if it has not ended in time: a main thread blocked in a system call runs no
 * timer, and any other blocked thread keeps Node from exiting.
 */
class LastResort {
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
    // The server stops without this help if it cannot be started.
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

/** Milliseconds from the first signal until the process exits, even if something hangs. */
const deadline = 8000;

/** Signals that would end the process by default, and that the server ignores. */
const survived = ['SIGUSR2', 'SIGXFSZ'] as const;

/**
 * Handles signals for `serve`. The first SIGINT or SIGTERM asks it to stop within ten seconds; the second one ends it at
 * once. SIGHUP is for the server to read its configuration again; it comes from a closed terminal as well. Similar signals are
 * ignored.
 */
export class StopSignals {
  /** Resolves with the first signal. */
  readonly asked: Promise<void>;
  /** Called at each SIGHUP. */
  onHangUp: (() => void) | null = null;
  #timer: NodeJS.Timeout | null = null;
  #lastResort: LastResort | null = null;

  constructor(private readonly say: (line: string) => void) {
    const goOn = (name: NodeJS.Signals) => this.say(`${name}: the server goes on; SIGTERM stops it.`);
    for (const name of survived) process.on(name, goOn);
    process.on('SIGHUP', () => {
      if (this.onHangUp) this.onHangUp();
      else goOn('SIGHUP');
    });
    this.asked = new Promise((resolve) => {
      const stop = () => {
        if (this.isAsked) this.#endNow();
        this.#arm();
        resolve();
      };
      for (const name of ['SIGINT', 'SIGTERM']) process.on(name, stop);
    });
  }

  /** Whether a signal has come. */
  get isAsked(): boolean {
    return this.#timer !== null;
  }

  /** Says that everything is closed, so the process can exit. The deadline stays, in case something still holds it. */
  closed(): void {
    this.#timer?.unref();
  }

  #arm(): void {
    try {
      this.#lastResort = new LastResort();
    } catch {
      // No process could be started, so the timer has to do it.
    }
    // Not unreferenced: runners and their timers do not keep the process alive, and Node would exit before the jobs end.
    this.#timer = setTimeout(() => {
      const open = [...new Set(process.getActiveResourcesInfo())].join(', ');
      this.say(`The stop took too long; ending now. Still open: ${open || 'nothing'}.`);
      this.#endNow();
    }, deadline);
  }

  #endNow(): never {
    this.#lastResort?.hurry();
    process.exit(exitCodes.failed);
  }
}
