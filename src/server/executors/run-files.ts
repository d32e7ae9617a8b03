import { lstatSync, rmSync, statfsSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { errorCode, lacksInodes, orElse, readOwnFile } from '../../files/index.js';
import { maxEndBytes, type RunEnd, type RunnerRecord, runFiles, unknownUsage } from '../../runner/index.js';
import { type Ended, type Grant, gpusOfEnvironment } from './executor.js';

/** Maximum size in bytes of a file that is read here; the record of an end is much smaller. */
const maxBytes = 64 << 20;

/** Identifies the process of a runner or a worker host, or the process that it has started. */
export const processIdentity = z.object({
  pid: z.number().int().positive(),
  startTime: z.number().min(0),
  boot: z.string(),
});

const runnerRecord = z.object({
  runner: processIdentity,
  command: processIdentity.nullable(),
}) satisfies z.ZodType<RunnerRecord>;

const runEnd = z.object({
  exitCode: z.number().int().min(0).max(255).nullable(),
  signal: z
    .string()
    .regex(/^SIG[A-Z0-9]{1,12}$/)
    .nullable(),
  error: z.string().max(maxEndBytes).nullable(),
  lostLines: z.number().int().min(0),
  fault: z.enum(['diskFull', 'outOfMemory', 'notStarted']).nullable(),
  peakMemory: z.number().min(0).nullable().default(null),
  cpuSeconds: z.number().min(0).nullable().default(null),
  wasAlone: z.boolean(),
  endedAt: z.iso.datetime(),
}) satisfies z.ZodType<RunEnd>;

/** The part of `run.json` that the server reads: the devices, which are in the environment of the command. */
const runRequest = z.object({
  environment: z.record(z.string(), z.string()),
  gpuUuids: z.array(z.string()),
});

/**
 * Reads a file of a run or of a worker host; undefined if there is none.
 * @throws if its content was not written by a server, runner or worker host
 */
export function readRunFile<T>(schema: z.ZodType<T>, file: string, limit = maxBytes): T | undefined {
  const text = readOwnFile(file, limit);
  return text === undefined ? undefined : schema.parse(JSON.parse(text));
}

/** Which processes are the runner and its command; undefined before the runner has written its record. */
export const readRunnerRecord = (directory: string): RunnerRecord | undefined =>
  readRunFile(runnerRecord, runFiles(directory).record);

const readRunEnd = (directory: string): RunEnd | undefined =>
  readRunFile(runEnd, runFiles(directory).end, 2 * maxEndBytes);

/** GPUs that a run was started with; undefined if that is not known. */
export function readRunGpus(directory: string): Pick<Grant, 'gpus' | 'gpuUuids'> | undefined {
  const request = readRunFile(runRequest, runFiles(directory).request);
  const gpus = request && gpusOfEnvironment(request.environment);
  return gpus && { gpus, gpuUuids: request.gpuUuids };
}

/**
 * Removes the records of a run that has ended, so that the job can be run again. No runner of it is left. The record of its end goes last: without it, the job would count as lost after a crash.
 */
export function forgetRun(directory: string): void {
  const { claim, record, end } = runFiles(directory);
  for (const file of [claim, record, end]) rmSync(file, { recursive: true, force: true });
}

const isThere = (directory: string): Promise<boolean> =>
  lstat(directory).then(
    () => true,
    (cause) => errorCode(cause) !== 'ENOENT',
  );

/**
 * Whether the directory of a running job was removed. If the directory of all jobs is missing as well, the disk may have
 * been unmounted for a moment, and this is false. Asynchronous, because a network file system that does not answer must
 * not block the server.
 */
export const isRemoved = async (directory: string): Promise<boolean> =>
  !(await isThere(directory)) && (await isThere(path.dirname(directory)));

/** Free bytes that a runner needs for its files. */
const runnerNeeds = 64 * 1024;
/** How often a failed read is retried, and milliseconds between two attempts. */
const attempts = 20;
const pause = 500;

/** Whether the disk is too full for a runner. */
export function lacksRoom(directory: string): boolean {
  const system = orElse(() => statfsSync(directory), null);
  return system !== null && (system.bavail * system.bsize < runnerNeeds || lacksInodes(directory));
}

/** @throws ENOSPC if the disk is too full for a runner */
export function checkRunnerRoom(directory: string): void {
  if (!lacksRoom(directory)) return;
  throw Object.assign(new Error('The disk has no room for a runner'), { code: 'ENOSPC', path: directory });
}

/** A signal's number, which shells add to 128; 0 for an unknown name. */
const signalNumber = (name: string): number =>
  (constants.signals as Readonly<Record<string, number>>)[name] ?? 0;

/** @param wasStopped whether it was asked to end, which would explain a signal */
function recordedEnd(end: RunEnd, wasStopped: boolean): Ended {
  const { exitCode, signal, error, fault, lostLines, endedAt, peakMemory, cpuSeconds, wasAlone } = end;
  // The kernel sends SIGKILL when memory runs out, but records the reason only in its own log.
  const isOutOfMemory = signal === 'SIGKILL' && !wasStopped && error === null;
  return {
    kind: 'ended',
    exitCode: signal === null ? exitCode : 128 + signalNumber(signal),
    signal,
    fault: fault ?? (isOutOfMemory ? 'outOfMemory' : null),
    error,
    lostLines,
    peakMemory,
    cpuSeconds,
    endedAt,
    ...(wasAlone ? { wasAlone } : {}),
  };
}

/** The end of a run that has no `exit.json`. */
export const unrecordedEnd = (fault: Ended['fault'], error: string): Ended => ({
  kind: 'ended',
  exitCode: null,
  signal: null,
  fault,
  error,
  lostLines: 0,
  ...unknownUsage,
});

/** The end of a run whose runner ended without writing `exit.json`. */
function silentEnd(directory: string): Ended {
  if (lstatSync(directory, { throwIfNoEntry: false }) === undefined) {
    return unrecordedEnd(
      'lost',
      "The job's directory was removed while it ran; what it had started was ended",
    );
  }
  if (lacksRoom(directory)) {
    const why = lacksInodes(directory)
      ? "no inodes (files) are left on the server's disk"
      : "the server's disk is full";
    return unrecordedEnd('diskFull', `The runner of this job could not write: ${why}`);
  }
  return unrecordedEnd('lost', 'The runner of this job was killed; what it had started was ended with it');
}

/**
 * How a run ended if its runner is gone. Retries a failed read for some seconds, because the process may have too many
 * files open at the moment. Never rejects.
 */
export async function endOfRun(directory: string, wasStopped: boolean): Promise<Ended> {
  for (let number = 0; number < attempts; number += 1) {
    try {
      const end = readRunEnd(directory);
      return end ? recordedEnd(end, wasStopped) : silentEnd(directory);
    } catch (cause) {
      // If this is not a system error, the file was not written by a runner.
      if (errorCode(cause) === '') break;
      await delay(pause, undefined, { ref: false });
    }
  }
  return unrecordedEnd('lost', "The runner's record of the end cannot be read");
}
