import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { noLimits, type Principal } from '../../../src/access/index.js';
import { unknownNeeds } from '../../../src/contract/index.js';
import { systemClock } from '../../../src/files/index.js';
import { unknownUsage } from '../../../src/runner/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import type { Ended, Executor } from '../../../src/server/executors/index.js';
import { Job, JobService } from '../../../src/server/jobs/index.js';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { type JobRecord, newRecord } from '../../../src/server/jobs/job-record.js';
import type { JobApps } from '../../../src/server/jobs/lifecycle.js';
import type { JobServiceDeps } from '../../../src/server/jobs/service.js';
import { temporary } from '../../support/temporary.js';

const unused = () => {
  throw new Error('Not in this test');
};

/** The end of a run whose command succeeded. */
export const succeeded: Ended = {
  kind: 'ended',
  exitCode: 0,
  signal: null,
  fault: null,
  error: null,
  lostLines: 0,
  ...unknownUsage,
};

/** The end of a run that was stopped. */
export const stoppedEnd: Ended = { ...succeeded, exitCode: 143, signal: 'SIGTERM' };

/** Runs nothing. */
export const executor: Executor = {
  devices: unused,
  memory: unused,
  capacity: unused,
  check: unused,
  run: unused,
  stop: async () => {},
  forget: () => {},
  isRunning: () => false,
  runningUnder: () => [],
  reserve: () => () => {},
};

/** Apps that run, with no version, and that are not kept loaded. */
export const appsOfTests: JobApps = {
  commandFor: () => ['true'],
  versionOf: async () => null,
  accessOf: () => ({ network: false, directories: [], environment: {} }),
  residentFor: () => null,
  explainOutOfMemory: () => null,
};

export const request = {
  app: 'tissue',
  operation: 'infer',
  values: {},
  device: { kind: 'cpu', workers: 1 },
  needs: unknownNeeds,
  acceptedOptions: [],
  tag: null,
  deidentified: false,
  inputs: [],
  idempotencyKey: null,
  keep: 3600,
  timeLimit: null,
  retryAlone: false,
} as const;

export const ana: Principal = { name: 'ana', role: 'user', limits: noLimits, apps: null };
export const idOf = (number: number) => number.toString(16).padStart(12, '0');

/** Jobs that have ended, the oldest first, of a service that has found them on its disk. */
export async function serviceWith(
  ends: readonly Partial<JobRecord>[],
  maxKeptJobs: number,
  { before = () => {}, ...more }: Partial<JobServiceDeps> & { readonly before?: (root: string) => void } = {},
) {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const jobs = path.join(root.path, 'jobs');
  for (const [index, end] of ends.entries()) {
    const directory = new JobDirectory(idOf(index), path.join(jobs, idOf(index)));
    directory.makeDirectories();
    writeFileSync(path.join(directory.output, 'mask.nii'), 'x'.repeat(10_000));
    writeFileSync(directory.logFile, '');
    const time = new Date(Date.now() - 60_000 + index * 1000).toISOString();
    const record = { ...newRecord(directory.id, { ...request, owner: 'ana' }, time, 0), finishedAt: time };
    directory.saveFirst({ ...record, state: 'done', ...end }, {});
  }
  mkdirSync(jobs, { recursive: true });
  before(root.path);
  const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
  const service = new JobService({
    dataDirectory: root.path,
    executor,
    events: new ServerEvents(report),
    report,
    clock: systemClock,
    maxKeptJobs,
    uploads: null,
    limits: { maxJobs: () => null, maxKept: () => null },
    maxJobs: 100,
    diskPerJob: null,
    grace: 3_600_000,
    maxKeep: 3_600_000,
    maxRunTime: null,
    maxFineTuneTime: null,
    areEndsNoticed: false,
    isUpgraded: () => false,
    apps: { ...appsOfTests, commandFor: unused },
    ...more,
  });
  onTestFinished(() => service.close('keep'));
  await service.load();
  service.resume();
  return { service, root: root.path, directory: (number: number) => path.join(jobs, idOf(number)) };
}

/** Begins a submission that repeats no other. */
export async function slotOf(service: JobService, principal: Principal) {
  const slot = await service.begin(principal, null, undefined);
  if (slot instanceof Job) throw new Error('There is a job');
  return slot;
}
