import { Interrupted } from '../client/errors.js';
import { exitCodes } from '../contract/errors.js';

/** The first SIGINT or SIGTERM asks everything under way to end; the second leaves at once. */
export interface Interruption {
  readonly signal: AbortSignal;
  stop(): void;
}

/** Listens until it is stopped. */
export function watchInterruption(): Interruption {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(exitCodes.interrupted);
    controller.abort(new Interrupted(name));
  };
  const names = ['SIGINT', 'SIGTERM'] as const;
  for (const name of names) process.on(name, onSignal);
  return {
    signal: controller.signal,
    stop: () => {
      for (const name of names) process.off(name, onSignal);
    },
  };
}
