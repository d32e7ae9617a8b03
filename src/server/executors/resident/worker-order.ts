import { createHash } from 'node:crypto';
import path from 'node:path';
import { jobMarker, type RunRequest, type WorkerCall, workerFiles } from '../../../runner/index.js';
import { isWithin, type JobLimits, jobsInSandbox, limitWords, type Sandbox } from '../../sandbox/index.js';
import type { Grant, JobAccess, Resident, RunOrder } from '../index.js';
import type { Worker, WorkerHostSettings, WorkerOrder } from './worker.js';

/** What a runner sends to its job's worker. */
export function workerCall(
  { directory, request }: Pick<Worker, 'directory' | 'request'>,
  { programWords }: Resident,
  { jobId, command, environment }: RunRequest,
): WorkerCall {
  const differing = Object.entries(environment).filter(
    ([name, value]) => request.environment[name] !== value,
  );
  // In its sandbox, `/tmp` is the worker's.
  const temporary = path.join(jobsInSandbox, jobId, 'Workspace', 'tmp');
  const inside = request.isSandboxed ? { HOME: temporary, TMPDIR: temporary } : {};
  return {
    id: request.id,
    directory,
    arguments: command.slice(programWords),
    environment: { ...Object.fromEntries(differing), ...inside, [jobMarker]: jobId },
  };
}

export interface WorkerOrderSettings extends Pick<WorkerHostSettings, 'environment'> {
  /** Milliseconds after which an idle worker leaves; 0 means that apps are started anew for each job. */
  readonly idle: number;
  /** Keeps jobs apart from each other; null where they run without. */
  readonly sandbox: Sandbox | null;
  /** What a job may use in its sandbox. */
  readonly limits: JobLimits;
}

/** How a job would be started without a worker, as far as that is known before it is placed. */
export type JobFrame = Omit<RunRequest, 'command' | 'wrapper'>;

/** What a job's worker depends on. */
export interface WorkerJob {
  readonly order: RunOrder;
  readonly grant: Grant;
  readonly frame: JobFrame;
  readonly resident: Resident;
  /** Bytes that the job takes of each of its GPUs; null if it has them for itself. */
  readonly gpuShare: number | null;
}

/**
 * The settings that a job's worker is started with, which identify an existing worker with the same settings.
 * @param seen the state of the app's files
 */
export function workerOrder(job: WorkerJob, seen: string, settings: WorkerOrderSettings): WorkerOrder {
  const { order, grant, frame, resident, gpuShare: gpuMemory } = job;
  const { command, watched, name, isShared } = resident;
  const { isSandboxed, filter, limits, inherited, killGrace } = frame;
  const { gpus, gpuUuids } = grant;
  const { owner, directory } = order;
  const access = settings.sandbox ? resident.access() : null;
  const wrapper = wrapperOf(job, access, settings);
  // Variables of the job that name its files are not the worker's.
  const shared = Object.entries(frame.environment).filter(([, value]) => !isWithin(directory.path, value));
  const environment = { ...access?.environment, ...Object.fromEntries(shared) };
  const inheritedValues = inherited.map((each) => [each, settings.environment[each]]);
  const content = JSON.stringify([environment, inheritedValues, limits, wrapper('/'), filter]);
  const devices = gpuUuids.length > 0 ? gpuUuids : gpus;
  return {
    ...{ command, wrapper, isSandboxed, filter, limits, inherited, environment, killGrace },
    ...{ name, owner, isShared, gpus, gpuUuids, gpuMemory, watched, seen },
    idle: settings.idle,
    sharedBy: JSON.stringify([command, devices, ...(isShared ? [] : [owner]), access?.network, gpuMemory]),
    content: createHash('sha256').update(content).digest('hex'),
  };
}

/**
 * The words before the command of a worker, which put it into its sandbox, for its worker host's directory. Empty without
 * a sandbox.
 */
function wrapperOf(
  { order, grant, resident: { command, watched } }: WorkerJob,
  access: JobAccess | null,
  { sandbox, limits, environment }: WorkerOrderSettings,
): WorkerOrder['wrapper'] {
  if (!sandbox || !access) return () => [];
  const searchPath = environment.PATH ?? '';
  const { memory } = limits;
  const jobs = path.dirname(order.directory.path);
  return (directory) => {
    const { home, temporary, jobMounts } = workerFiles(directory);
    const files = { home, temporary, jobMounts: { directory: jobMounts, jobs }, watched };
    return [
      ...sandbox.wrapWorker({ ...files, command, grant, access, memory }, searchPath),
      ...limitWords(limits, searchPath),
    ];
  };
}
