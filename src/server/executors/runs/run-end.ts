import { lstatSync, statfsSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../../files/error-code.js';
import type { RunEnd } from '../../../runner/protocol.js';
import type { Ended } from '../executor.js';
import { readRunEnd } from './run-files.js';

/** Free bytes that a runner needs for its files. */
const runnerNeeds = 64 * 1024;
/** How often reading a file is retried after a system error, and milliseconds between two tries. */
const attempts = 20;
const pause = 500;

/** Whether the disk is too full for a runner. Asks without a thread, which takes longer to begin than the answer. */
export function lacksRoom(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize < runnerNeeds;
  } catch {
    return false;
  }
}

/** @throws ENOSPC if the disk is too full for a runner */
export function checkRunnerRoom(directory: string): void {
  if (!lacksRoom(directory)) return;
  throw Object.assign(new Error('The disk has no room for a runner'), { code: 'ENOSPC' });
}

/** A signal's number, which shells add to 128; 0 for an unknown name. */
const signalNumber = (name: string): number =>
  (constants.signals as Readonly<Record<string, number>>)[name] ?? 0;

/** @param wasStopped whether it was asked to end, which explains a signal */
function toldByRunner(end: RunEnd, wasStopped: boolean): Ended {
  const { exitCode, signal, error, fault, lostLines, endedAt, wasAlone } = end;
  // The kernel sends SIGKILL when memory runs out, and reports that only in its own log.
  const isOutOfMemory = signal === 'SIGKILL' && !wasStopped && error === null;
  return {
    kind: 'ended',
    exitCode: signal === null ? exitCode : 128 + signalNumber(signal),
    signal,
    fault: fault ?? (isOutOfMemory ? 'outOfMemory' : null),
    error,
    lostLines,
    endedAt,
    ...(wasAlone ? { wasAlone } : {}),
  };
}

/** The end of a run that has no `exit.json`. */
export const untold = (fault: Ended['fault'], error: string): Ended => ({
  kind: 'ended',
  exitCode: null,
  signal: null,
  fault,
  error,
  lostLines: 0,
});

/** The end of a run whose runner ended without writing `exit.json`. */
async function silentEnd(directory: string): Promise<Ended> {
  if (lstatSync(directory, { throwIfNoEntry: false }) === undefined) {
    return untold('lost', "The job's directory was removed while it ran; what it had started was ended");
  }
  if (lacksRoom(directory)) {
    return untold('diskFull', "The runner of this job could not write: the server's disk is full");
  }
  return untold('lost', 'The runner of this job was killed; what it had started was ended with it');
}

/**
 * How a run ended whose runner is gone. Retries a failed read for some seconds: the machine may have too many files open
 * at the moment. Never rejects.
 */
export async function settleRunEnd(directory: string, wasStopped: boolean): Promise<Ended> {
  for (let number = 0; number < attempts; number += 1) {
    try {
      const end = readRunEnd(directory);
      return end ? toldByRunner(end, wasStopped) : await silentEnd(directory);
    } catch (cause) {
      // Not a system error: the file is not one that a runner has written.
      if (errorCode(cause) === '') break;
      await delay(pause, undefined, { ref: false });
    }
  }
  return untold('lost', 'What the runner wrote of its end cannot be read');
}
