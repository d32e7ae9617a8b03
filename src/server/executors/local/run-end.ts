import { lstatSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { constants } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../../files/error-code.js';
import type { RunEnd } from '../../../runner/protocol.js';
import type { Ended } from '../executor.js';
import { readRunEnd } from './run-files.js';

/** Bytes without which a runner cannot write what it must. */
const runnerNeeds = 64 * 1024;
/** How often, and how long after one another, a file is read that the system did not let us read; milliseconds. */
const attempts = 20;
const pause = 500;

/** Whether a runner could not write there what it must. */
export async function lacksRoom(directory: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize < runnerNeeds;
  } catch {
    return false;
  }
}

/** A signal's number, as shells add it to 128; 0 for a name that this system has not. */
const signalNumber = (name: string): number =>
  (constants.signals as Readonly<Record<string, number>>)[name] ?? 0;

/** @param wasStopped it was asked to end: then a signal is no sign of anything else */
function toldByRunner({ exitCode, signal, error, fault, lostLines }: RunEnd, wasStopped: boolean): Ended {
  // The kernel takes SIGKILL when memory runs out, and tells nobody but its own log.
  const isOutOfMemory = signal === 'SIGKILL' && !wasStopped;
  return {
    kind: 'ended',
    exitCode: signal === null ? exitCode : 128 + signalNumber(signal),
    signal,
    fault: fault ?? (isOutOfMemory ? 'outOfMemory' : null),
    error,
    lostLines,
  };
}

/** The end of a run that nobody tells of. */
export const untold = (fault: Ended['fault'], error: string): Ended => ({
  kind: 'ended',
  exitCode: null,
  signal: null,
  fault,
  error,
  lostLines: 0,
});

/** What is known of a runner that ended without a word. */
async function silentEnd(directory: string): Promise<Ended> {
  if (lstatSync(directory, { throwIfNoEntry: false }) === undefined) {
    return untold('lost', "The job's directory was removed while it ran; what it had started was ended");
  }
  if (await lacksRoom(directory)) {
    return untold('diskFull', "The runner of this job could not write: the server's disk is full");
  }
  return untold('lost', 'The runner of this job was killed; what it had started was ended with it');
}

/**
 * How a run ended whose runner is gone. A read that fails is tried again for some seconds: the machine may have too
 * many files open at the moment. Never rejects.
 */
export async function settleRunEnd(directory: string, wasStopped: boolean): Promise<Ended> {
  for (let number = 0; number < attempts; number += 1) {
    try {
      const end = readRunEnd(directory);
      return end ? toldByRunner(end, wasStopped) : await silentEnd(directory);
    } catch (cause) {
      // Not a fault of the system: what lies there is not what a runner writes.
      if (errorCode(cause) === '') break;
      await delay(pause, undefined, { ref: false });
    }
  }
  return untold('lost', 'What the runner wrote of its end cannot be read');
}
