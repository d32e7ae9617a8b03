import { Interrupted } from '../client/errors.js';
import { exitCodes } from '../contract/errors.js';

/**
 * The first SIGINT, SIGTERM or SIGHUP (the terminal is closed) asks everything under way to end; a second SIGINT or
 * SIGTERM leaves at once. A command that no terminal shows (`nohup`, whose effect Node undoes) goes on at SIGHUP.
 */
export interface Interruption {
  readonly signal: AbortSignal;
  stop(): void;
}

/** Listens until it is stopped. */
export function watchInterruption(): Interruption {
  const controller = new AbortController();
  const isShown = process.stdout.isTTY || process.stderr.isTTY;
  const onSignal = (name: NodeJS.Signals) => {
    if (name === 'SIGHUP' && !isShown) return;
    if (controller.signal.aborted) {
      // Of a terminal that is closed the system and the shell tell both.
      if (name === 'SIGHUP') return;
      process.exit(exitCodes.interrupted);
    }
    controller.abort(new Interrupted(name));
  };
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of names) process.on(name, onSignal);
  return {
    signal: controller.signal,
    stop: () => {
      for (const name of names) process.off(name, onSignal);
    },
  };
}
