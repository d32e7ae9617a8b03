import { exitCodes } from '../../contract/index.js';

/** Milliseconds from the first signal until the process ends, even if something hangs. */
const deadline = 8000;

/** Signals that end a process by default, and that the server ignores. */
const survived = ['SIGUSR2', 'SIGXFSZ'] as const;

/**
 * Handles the signals of `serve`. The first SIGINT or SIGTERM asks the server to stop within ten seconds; the second ends
 * it at once. SIGHUP makes the server read its apps and tokens again; closing the terminal sends it as well.
 */
export class StopSignals {
  /** Resolves with the first signal. */
  readonly asked: Promise<void>;
  /** Called at each SIGHUP. */
  onHangUp: (() => void) | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(private readonly say: (line: string) => void) {
    const goOn = (name: NodeJS.Signals) => this.say(`${name}: the server goes on; SIGTERM stops it.`);
    for (const name of survived) process.on(name, goOn);
    process.on('SIGHUP', () => {
      if (this.onHangUp) this.onHangUp();
      else goOn('SIGHUP');
    });
    this.asked = new Promise((resolve) => {
      const stop = () => {
        if (this.isAsked) process.exit(exitCodes.failed);
        this.#arm();
        resolve();
      };
      for (const name of ['SIGINT', 'SIGTERM']) process.on(name, stop);
    });
  }

  /** Whether a signal to stop was received. */
  get isAsked(): boolean {
    return this.#timer !== null;
  }

  /** Everything is closed, so the process can exit. The deadline stays, in case something keeps it alive. */
  closed(): void {
    this.#timer?.unref();
  }

  #arm(): void {
    // Referenced: runners and their timers do not keep the process alive, and Node would exit before the jobs end.
    this.#timer = setTimeout(() => {
      const open = [...new Set(process.getActiveResourcesInfo())].join(', ');
      this.say(`The stop took too long; ending now. Still open: ${open || 'nothing'}.`);
      // Not `process.exit`, which waits for threads, and one may be blocked by a file system.
      process.kill(process.pid, 'SIGKILL');
    }, deadline);
  }
}
