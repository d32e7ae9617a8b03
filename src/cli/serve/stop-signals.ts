import { exitCodes } from '../../contract/index.js';
import { LastResort } from './last-resort.js';

/** Milliseconds from the first signal until the process exits, whatever hangs. */
const deadline = 8000;

/** Signals that end a process by default and that the server ignores. */
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
      // No process can be started: only the timer is left.
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
