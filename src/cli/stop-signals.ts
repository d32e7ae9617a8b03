import { Worker } from 'node:worker_threads';
import { exitCodes } from '../contract/errors.js';

/** Milliseconds after the first signal by which the process has ended, whatever hangs. */
const lastResort = 9000;
/** The same for a main thread that does nothing any more: the thread that watches it waits a little longer. */
const veryLastResort = 9500;

/** Signals that end a process by default, and no server that has jobs to look after. */
const survived = ['SIGHUP', 'SIGUSR2', 'SIGXFSZ'] as const;

/** Sleeps in a thread of its own, then ends the process in the one way that needs nothing of the main thread. */
const watchdog = `
  const { workerData: milliseconds } = require('node:worker_threads');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  process.kill(process.pid, 'SIGKILL');
`;

function startWatchdog(): void {
  try {
    // Nothing that this process was told to load is of use to it.
    const worker = new Worker(watchdog, { eval: true, workerData: veryLastResort, execArgv: [], env: {} });
    worker.on('error', () => {});
    worker.unref();
  } catch {
    // No thread to be had: the deadline below is left.
  }
}

/**
 * SIGINT and SIGTERM, as `serve` takes them: the first asks it to stop, and gives it ten seconds; the second ends it at
 * once. A closed terminal (SIGHUP) and its like are survived.
 */
export class StopSignals {
  /** Resolves with the first signal. */
  readonly asked: Promise<void>;
  #deadline: NodeJS.Timeout | null = null;

  constructor(private readonly say: (line: string) => void) {
    const goOn = (name: NodeJS.Signals) => this.say(`${name}: the server goes on; SIGTERM stops it.`);
    for (const name of survived) process.on(name, goOn);
    this.asked = new Promise((resolve) => {
      const stop = () => {
        if (this.isAsked) process.exit(exitCodes.failed);
        this.#arm();
        resolve();
      };
      for (const name of ['SIGINT', 'SIGTERM']) process.on(name, stop);
    });
  }

  /** Whether a signal has come. */
  get isAsked(): boolean {
    return this.#deadline !== null;
  }

  /** All is closed: the process may end by itself. What still holds it, holds it until the deadline. */
  closed(): void {
    this.#deadline?.unref();
  }

  #arm(): void {
    // It also keeps the process: runners and their timers do not, and Node would end before the jobs have.
    this.#deadline = setTimeout(() => {
      const open = [...new Set(process.getActiveResourcesInfo())].join(', ');
      this.say(`The stop took too long; ending now. Still open: ${open || 'nothing'}.`);
      process.exit(exitCodes.failed);
    }, lastResort);
    startWatchdog();
  }
}
