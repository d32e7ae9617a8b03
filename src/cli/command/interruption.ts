import { setMaxListeners } from 'node:events';
import { Interrupted } from '../../client/errors.js';
import { exitCodes } from '../../contract/index.js';
import type { CommandIo } from '../terminal/index.js';

/**
 * The first SIGINT, SIGTERM or SIGHUP (the terminal was closed) asks everything in progress to end; a second SIGINT or SIGTERM
 * exits at once. A command without a terminal ignores SIGHUP, because Node undoes the effect of `nohup`. On Windows, Ctrl-Break
 * (SIGBREAK) counts as a first signal. So does SIGQUIT (Ctrl-\) elsewhere, but it leaves a job running, whereas the others kill
 * it.
 */
export interface Interruption {
  readonly signal: AbortSignal;
  stop(): void;
}

/** Deletes the ^C or ^\ that the terminal printed where the next message begins. */
function deleteEcho(name: NodeJS.Signals, io: CommandIo): void {
  if ((name === 'SIGINT' || name === 'SIGQUIT') && io.isInteractive()) io.stderr.write('\r\u001b[K\r');
}

/** Ends the process after a second signal, and says what is left running. */
function leaveAtOnce(name: NodeJS.Signals, first: unknown, io: CommandIo, json: boolean): void {
  deleteEcho(name, io);
  const leaves = first instanceof Interrupted ? first.leaves : null;
  const sentence = new Interrupted(name, leaves ?? undefined).message;
  io.tellError(sentence, []);
  const told = json ? io.documentError(sentence, exitCodes.interrupted) : Promise.resolve();
  told.catch(() => {}).finally(() => process.exit(exitCodes.interrupted));
}

const everywhere = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Listens for signals until `stop` is called. @param json whether an error is also printed as a document on stdout */
export function watchInterruption(io: CommandIo, json: boolean): Interruption {
  const controller = new AbortController();
  // Every request in progress listens to it, and there may be one per job.
  setMaxListeners(0, controller.signal);
  const isShown = io.stdout.isTTY || io.stderr.isTTY;
  const onSignal = (name: NodeJS.Signals) => {
    if (name === 'SIGHUP' && !isShown) return;
    if (controller.signal.aborted) {
      // When a terminal is closed, both the system and the shell send SIGHUP.
      if (name === 'SIGHUP') return;
      leaveAtOnce(name, controller.signal.reason, io, json);
      return;
    }
    deleteEcho(name, io);
    controller.abort(new Interrupted(name));
  };
  const names = [...everywhere, process.platform === 'win32' ? ('SIGBREAK' as const) : ('SIGQUIT' as const)];
  for (const name of names) process.on(name, onSignal);
  return {
    signal: controller.signal,
    stop: () => {
      for (const name of names) process.off(name, onSignal);
    },
  };
}
