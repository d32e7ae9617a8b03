import { existsSync } from 'node:fs';
import path from 'node:path';
import { ServiceError } from '../../../contract/index.js';
import { findProgram, Turns } from '../../../files/index.js';
import { runFiles } from '../../../runner/index.js';
import type { Report } from '../../report.js';
import { SetupError } from '../../setup-error.js';
import type {
  AskedDevices,
  Device,
  DeviceMemory,
  DeviceRequest,
  Executor,
  JobRef,
  RunEvent,
  RunOrder,
} from '../index.js';
import { hasRun } from './batch-script.js';
import { Cluster } from './cluster.js';
import { cancelUnstarted, type SlurmContext } from './context.js';
import { type OwnerLimit, OwnerQuota } from './owner-quota.js';
import { JobQueue, phaseOf } from './queue.js';
import type { Rank } from './queued-job.js';
import { RunFollower } from './run-follower.js';
import { Slurm, SlurmFailure, type SlurmOptions, type SlurmSettings } from './slurm.js';
import { SlurmRun } from './slurm-run.js';

interface SlurmExecutorSettings extends SlurmSettings {
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** Bytes kept from the start of a job's log. */
  readonly maxLogBytes: number;
  readonly maxGpus?: OwnerLimit;
  readonly maxJobs?: OwnerLimit;
  readonly report: Report;
}

const compare = (a: Rank, b: Rank): number => a[0] - b[0] || a[1] - b[1];

/** Runs jobs on the nodes of a Slurm cluster: Slurm queues, places and limits them, and a runner on the node runs them. */
export class SlurmExecutor implements Executor {
  readonly #context: SlurmContext;
  readonly #runs = new Set<SlurmRun>();
  #arrivals = 0;

  constructor(settings: SlurmExecutorSettings) {
    const { options, report } = settings;
    const slurm = new Slurm(settings);
    const queue = new JobQueue((words) => slurm.squeue(words));
    this.#context = {
      ...settings,
      slurm,
      queue,
      cluster: new Cluster(options.partition, (words) => slurm.sinfo(words)),
      quota: new OwnerQuota(settings),
      turns: new Turns(1),
    };
    let isOut = false;
    queue.on('refreshed', () => {
      if (queue.problem !== null && !isOut)
        report('Slurm does not answer; running jobs continue', queue.problem);
      if (queue.problem === null && isOut) report('Slurm answers again', 'jobs are submitted to it');
      isOut = queue.problem !== null;
      for (const run of this.#runs) run.wake();
    });
  }

  /** Asks Slurm for its nodes and our jobs. If it does not answer, it is asked again later. */
  async start(): Promise<void> {
    await Promise.all([this.#context.cluster.refresh(), this.#context.queue.refresh()]);
  }

  /** The nodes of the cluster. */
  get cluster(): Cluster {
    return this.#context.cluster;
  }

  /** Applies limits of owners that have changed. */
  reconsider(): void {
    this.#context.quota.reconsider();
  }

  devices(): Promise<readonly Device[]> {
    return this.#context.cluster.devices();
  }

  async memory(ids: readonly number[]): Promise<DeviceMemory> {
    await this.#context.cluster.refreshSoon();
    this.#context.cluster.refuseUnknown(ids);
    throw new ServiceError('memoryUnknown', 'Slurm does not tell the memory of the GPUs of its nodes');
  }

  check(asked: AskedDevices): DeviceRequest {
    return this.#context.cluster.check(asked);
  }

  run(order: RunOrder): AsyncIterable<RunEvent> {
    const impossible = order.isAccepted ? null : this.#context.cluster.impossible(order.devices);
    if (impossible !== null) throw new Error(impossible);
    this.#arrivals += 1;
    const run = new SlurmRun(order, this.#context, this.#arrivals, (of) => this.#positionOf(of));
    this.#runs.add(run);
    void run.over.then(() => this.#runs.delete(run));
    return run.events();
  }

  /** A job's position in the queue: 1 is next. */
  #positionOf(run: SlurmRun): number {
    const own = run.rank;
    if (own === null) return this.#runs.size;
    return [...this.#runs].filter(({ rank }) => rank !== null && compare(rank, own) < 0).length + 1;
  }

  async stop(job: JobRef): Promise<void> {
    const runs = [...this.#runs].filter((run) => run.path === job.path);
    for (const run of runs) run.stop();
    if (runs.length === 0) await this.#stopUnknown(job);
    await Promise.all(runs.map(({ over }) => over));
  }

  /** Ends a job that is known only by its directory. */
  async #stopUnknown(job: JobRef): Promise<void> {
    if (existsSync(runFiles(job.path).end)) return;
    const { queue } = this.#context;
    const wakeAll = () => follower.wake();
    const follower = new RunFollower({ directory: job, timeLimit: null }, this.#context, null);
    const leave = queue.follow();
    queue.on('refreshed', wakeAll);
    try {
      if (hasRun(job.path)) {
        follower.stop();
        await follower.ended();
      } else {
        await cancelUnstarted(job.path, this.#context);
      }
    } finally {
      queue.off('refreshed', wakeAll);
      leave();
    }
  }

  faults(): readonly string[] {
    const { problem } = this.#context.queue;
    return problem === null ? [] : [`Slurm does not answer (${problem}): jobs wait`];
  }

  isRunning({ path: directory }: JobRef): boolean {
    const { end } = runFiles(directory);
    if (!hasRun(directory) || existsSync(end)) return false;
    const { queue } = this.#context;
    return queue.view === null || queue.rowsOf(directory).some((row) => phaseOf(row) === 'active');
  }

  /** Includes jobs still in Slurm whose directories were removed. */
  runningUnder(parent: string): readonly JobRef[] {
    const rows = this.#context.queue.view?.rows ?? [];
    const below = rows.filter((row) => phaseOf(row) !== 'ended' && path.dirname(row.directory) === parent);
    const running = below.filter(
      ({ directory }) => !existsSync(directory) || this.isRunning({ id: '', path: directory }),
    );
    return running.map(({ jobId, directory }) => ({ id: jobId, path: directory }));
  }

  /** Slurm reserves the devices itself. This only keeps the view of the queue current. */
  hold(): () => void {
    return this.#context.queue.follow();
  }
}

/** What the server knows about the cluster after it started, for the admin. */
export interface ClusterReport {
  readonly version: string;
  /** Nodes that jobs may run on, and their GPUs; null while Slurm does not answer. */
  readonly size: { readonly nodes: number; readonly gpus: number } | null;
  /** Why Slurm does not answer; null if it does. */
  readonly problem: string | null;
}

/** The Slurm commands that must exist; sacct is optional. */
const requiredCommands = ['sbatch', 'squeue', 'scancel', 'sinfo'];

/**
 * Slurm's refusals of settings that can never run a job. Others may be temporary, for example when all nodes are down.
 */
const permanent =
  /invalid|not found|permission|denied|unrecognized|unknown|must|not allowed|illegal|requires/i;

/** @throws SetupError */
function refusal(message: string): SetupError {
  return new SetupError(`--executor slurm: ${message}`);
}

/**
 * Checks whether Slurm accepts jobs with these settings.
 * @throws SetupError if commands are missing or Slurm would refuse every job, but not if it does not answer
 */
async function examineSlurm(
  slurm: Slurm,
  cluster: Cluster,
  options: SlurmOptions,
  searchPath: string,
): Promise<ClusterReport> {
  const missing = requiredCommands.filter((name) => findProgram(name, searchPath) === undefined);
  if (missing.length > 0) {
    throw refusal(
      `${missing.join(', ')} of Slurm cannot be found on PATH; run the server on a login node of the cluster (Debian and Ubuntu: apt-get install slurm-client)`,
    );
  }
  const version = await slurm.version().catch((cause: Error) => {
    throw refusal(cause.message);
  });
  await cluster.refresh();
  const { nodes } = cluster;
  if (nodes === null) return { version, size: null, problem: cluster.problem };
  if (nodes.length === 0 && options.partition !== null) {
    const there = (await slurm.partitions()).join(', ');
    throw new SetupError(
      `--slurm-partition ${options.partition}: the cluster has no partition ${options.partition} with nodes; it has: ${there}`,
    );
  }
  let problem: string | null = null;
  try {
    await slurm.test();
  } catch (cause) {
    if (!(cause instanceof SlurmFailure)) throw cause;
    if (!cause.isTemporary && permanent.test(cause.message)) {
      throw refusal(`Slurm refuses every job with these settings: ${cause.message}`);
    }
    problem = cause.message;
  }
  const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
  return { version, size: { nodes: nodes.length, gpus }, problem };
}

/** Examines the cluster without an executor, for `serve --check`. @throws SetupError */
export function lookAtSlurm(options: SlurmOptions, environment: NodeJS.ProcessEnv): Promise<ClusterReport> {
  const slurm = new Slurm({ options, environment, passEnvironment: [] });
  const cluster = new Cluster(options.partition, (words) => slurm.sinfo(words));
  return examineSlurm(slurm, cluster, options, environment.PATH ?? '');
}

/**
 * Opens the executor of a cluster. If Slurm answers, it knows the jobs that an earlier server has left in the queue.
 * @throws SetupError
 */
export async function openSlurm(
  settings: SlurmExecutorSettings,
): Promise<{ readonly executor: SlurmExecutor; readonly cluster: ClusterReport }> {
  const executor = new SlurmExecutor(settings);
  const { options, environment } = settings;
  const [cluster] = await Promise.all([
    examineSlurm(new Slurm(settings), executor.cluster, options, environment.PATH ?? ''),
    executor.start(),
  ]);
  return { executor, cluster };
}
