import { createHash } from 'node:crypto';
import path from 'node:path';
import type { RunRequest, WorkerCall } from '../../../../runner/protocol.js';
import { jobsInSandbox } from '../../../sandbox/sandbox.js';
import { isWithin } from '../../../sandbox/visible.js';
import type { Grant, Reach, Resident, RunOrder } from '../../index.js';
import { fingerprint } from './fingerprint.js';
import type { Worker, WorkerOrder } from './worker.js';

/** What a worker is made of. */
export interface WorkerParts {
  readonly order: RunOrder;
  readonly resident: Resident;
  /** What it may reach in its sandbox; null without one. */
  readonly reach: Reach | null;
  readonly grant: Grant;
  /** How the job would be started by itself. */
  readonly request: Omit<RunRequest, 'command' | 'wrapper'>;
  /** The server's variables, of which the worker inherits some. */
  readonly environment: NodeJS.ProcessEnv;
  readonly idle: number;
  /** The words before its command, for a keeper's directory: its sandbox, if it has one. */
  readonly wrapper: (directory: string) => readonly string[];
}

/** The variables of a job that name no file of it: they are those of its worker as well. */
function sharedEnvironment(environment: RunRequest['environment'], { path }: RunOrder['directory']) {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => !isWithin(path, value)));
}

/** What a worker for a job is started with: by it, a worker is found that was started with the same. */
export async function workerOrder(parts: WorkerParts): Promise<WorkerOrder> {
  const { order, resident, reach, grant, request, environment: own, idle, wrapper } = parts;
  const { isSandboxed, filter, limits, inherited, killGrace } = request;
  const { command, watched, name } = resident;
  const environment = { ...reach?.environment, ...sharedEnvironment(request.environment, order.directory) };
  const devices = grant.gpuUuids.length > 0 ? grant.gpuUuids : grant.gpus;
  const inheritedValues = inherited.map((each) => [each, own[each]]);
  const content = JSON.stringify([environment, inheritedValues, limits, wrapper('/'), filter]);
  return {
    command,
    wrapper,
    isSandboxed,
    filter,
    hasStage: isSandboxed,
    limits,
    inherited,
    environment,
    killGrace,
    idle,
    place: JSON.stringify([command, devices, order.owner, reach?.network]),
    content: createHash('sha256').update(content).digest('hex'),
    name,
    owner: order.owner,
    gpus: grant.gpus,
    gpuUuids: grant.gpuUuids,
    watched,
    seen: await fingerprint(watched),
  };
}

/** What a runner tells a worker of its job. */
export function workerCall(
  { directory, request }: Pick<Worker, 'directory' | 'request'>,
  { programWords }: Resident,
  { jobId, command, environment }: RunRequest,
  marker: string,
): WorkerCall {
  const differing = Object.entries(environment).filter(
    ([name, value]) => request.environment[name] !== value,
  );
  // In its sandbox `/tmp` is that of the loaded app.
  const temporary = path.join(jobsInSandbox, jobId, 'Workspace', 'tmp');
  const inside = request.isSandboxed ? { HOME: temporary, TMPDIR: temporary } : {};
  return {
    id: request.id,
    directory,
    arguments: command.slice(programWords),
    environment: { ...Object.fromEntries(differing), ...inside, [marker]: jobId },
  };
}
