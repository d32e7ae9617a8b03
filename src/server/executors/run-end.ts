import { lstatSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../files/error-code.js';
import type { RunEnd } from '../../runner/protocol.js';
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

/** Why a runner ended without a word. */
async function reasonForSilence(directory: string): Promise<string> {
  if (lstatSync(directory, { throwIfNoEntry: false }) === undefined) {
    return "The job's directory was removed while it ran; what it had started was ended";
  }
  if (await lacksRoom(directory)) {
    return "The runner of this job could not write: the server's disk is full";
  }
  return 'The runner of this job was killed; what it had started was ended with it';
}

/**
 * How a run ended whose runner is gone. A read that fails is tried again for some seconds: the machine may have too
 * many files open at the moment. Never rejects.
 */
export async function settleRunEnd(directory: string): Promise<RunEnd> {
  let error = '';
  for (let number = 0; number < attempts; number += 1) {
    try {
      const end = readRunEnd(directory);
      if (end) return end;
      error = await reasonForSilence(directory);
      break;
    } catch (cause) {
      error = 'What the runner wrote of its end cannot be read';
      // Not a fault of the system: what lies there is not what a runner writes.
      if (errorCode(cause) === '') break;
      await delay(pause, undefined, { ref: false });
    }
  }
  return { exitCode: null, signal: null, error, lostLines: 0, endedAt: new Date().toISOString() };
}
