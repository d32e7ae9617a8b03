import { exitCodes } from '../../contract/errors.js';
import { LastResort } from './last-resort.js';

/** Milliseconds after the first signal by which the process ends itself, whatever hangs. */
const deadline = 8000;

/** Signals that end a process by default, and no server that has jobs to look after. */
const survived = ['SIGHUP', 'SIGUSR2', 'SIGXFSZ'] as const;

/**
 * SIGINT and SIGTERM, as `serve` takes them: the first asks it to stop, and gives it ten seconds; the second ends it at
 * once. A closed terminal (SIGHUP) and its like are survived.
 */
export class StopSignals {
  /** Resolves with the first signal. */
  readonly asked: Promise<void>;
  #timer: NodeJS.Timeout | null = null;
  #lastResort: LastResort | null = null;

  constructor(private readonly say: (line: string) => void) {
    const goOn = (name: NodeJS.Signals) => this.say(`${name}: the server goes on; SIGTERM stops it.`);
    for (const name of survived) process.on(name, goOn);
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

  /** All is closed: the process may end by itself. What still holds it, holds it until the deadline. */
  closed(): void {
    this.#timer?.unref();
  }

  #arm(): void {
    try {
      this.#lastResort = new LastResort();
    } catch {
      // No process can be started: the timer is left.
    }
    // It also keeps the process: runners and their timers do not, and Node would end before the jobs have.
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
