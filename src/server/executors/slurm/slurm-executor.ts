import { existsSync } from 'node:fs';
import path from 'node:path';
import { ServiceError } from '../../../contract/index.js';
import { findProgram, Turns } from '../../../files/index.js';
import { runFiles } from '../../../runner/index.js';
import { SetupError } from '../../setup-error.js';
import {
  type AskedDevices,
  type Device,
  type DeviceMemory,
  type DeviceRequest,
  type Executor,
  forgetRun,
  type JobRef,
  type OwnerLimits,
  type RunEvent,
  type RunOrder,
  refuseUnknown,
} from '../index.js';
import { forgetSubmission, hasRun } from './batch-script.js';
import { Cluster } from './cluster.js';
import { cancelUnstarted, type SlurmContext } from './context.js';
import { OwnerQuota } from './owner-quota.js';
import { JobQueue, phaseOf } from './queue.js';
import { RunFollower } from './run-follower.js';
import { Slurm, SlurmFailure, type SlurmOptions, type SlurmSettings } from './slurm.js';
import { SlurmRun } from './slurm-run.js';

type SlurmExecutorSettings = SlurmSettings &
  OwnerLimits &
  Pick<SlurmContext, 'killGrace' | 'maxLogBytes' | 'report'>;

/** Runs jobs on the nodes of a Slurm cluster: Slurm queues, places and limits them, and a runner on the node runs them. */
export class SlurmExecutor implements Executor {
  readonly context: SlurmContext;
  readonly #runs = new Set<SlurmRun>();

  constructor(settings: SlurmExecutorSettings) {
    const { options, report } = settings;
    const slurm = new Slurm(settings);
    let isOut = false;
    const queue = new JobQueue(
      (words) => slurm.squeue(words),
      () => {
        if (queue.problem !== null && !isOut)
          report('Slurm does not answer; running jobs continue', queue.problem);
        if (queue.problem === null && isOut) report('Slurm answers again', 'jobs are submitted to it');
        isOut = queue.problem !== null;
      },
    );
    this.context = {
      ...settings,
      slurm,
      queue,
      cluster: new Cluster(options.partition, (words) => slurm.sinfo(words)),
      quota: new OwnerQuota(settings),
      turns: new Turns(1),
      runs: this.#runs,
    };
  }

  /** Asks Slurm for its nodes and for the jobs of this service. If Slurm does not answer, it is asked again later. */
  async start(): Promise<void> {
    await Promise.all([this.context.cluster.refresh(), this.context.queue.refresh()]);
  }

  /** Applies limits of owners that have changed. */
  reconsider(): void {
    this.context.quota.reconsider();
  }

  devices(): Promise<readonly Device[]> {
    return this.context.cluster.devices();
  }

  async memory(ids: readonly number[]): Promise<DeviceMemory> {
    refuseUnknown(ids, await this.devices());
    throw new ServiceError('memoryUnknown', 'Slurm does not report the memory of the GPUs of its nodes');
  }

  capacity() {
    const { cluster } = this.context;
    // For the next request: nodes may have come or gone.
    void cluster.refresh();
    return {
      gpus: cluster.known?.map(({ id }) => ({ id, memory: null })) ?? null,
      memory: cluster.largest.memory,
      cpus: cluster.nodes && cluster.largest.cpus,
    };
  }

  check(asked: AskedDevices): DeviceRequest {
    return this.context.cluster.check(asked);
  }

  run(order: RunOrder): AsyncIterable<RunEvent> {
    const { devices, isAccepted } = order;
    const { known } = this.context.cluster;
    if (devices.kind === 'gpus' && known && !isAccepted) refuseUnknown(devices.ids, known);
    const run = new SlurmRun(order, this.context);
    this.#runs.add(run);
    void run.over.then(() => this.#runs.delete(run));
    return run.events();
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
    if (!hasRun(job.path)) return await cancelUnstarted(job.path, this.context);
    const follower = new RunFollower({ directory: job, timeLimit: null }, this.context, null);
    follower.stop();
    await follower.ended();
  }

  forget({ path: directory }: JobRef): void {
    if (!hasRun(directory)) return;
    forgetSubmission(directory);
    forgetRun(directory);
  }

  faults(): readonly string[] {
    const { problem } = this.context.queue;
    return problem === null ? [] : [`Slurm does not answer (${problem}): jobs wait`];
  }

  isRunning({ path: directory }: JobRef): boolean {
    const { end } = runFiles(directory);
    if (!hasRun(directory) || existsSync(end)) return false;
    const { queue } = this.context;
    return queue.view === null || queue.rowsOf(directory).some((row) => phaseOf(row) === 'active');
  }

  /** Includes jobs still in Slurm whose directories were removed. */
  runningUnder(parent: string): readonly JobRef[] {
    const rows = this.context.queue.view?.rows ?? [];
    const below = rows.filter((row) => phaseOf(row) !== 'ended' && path.dirname(row.directory) === parent);
    const jobs = below.map(({ jobId, directory }) => ({ id: jobId, path: directory }));
    return jobs.filter((job) => !existsSync(job.path) || this.isRunning(job));
  }

  /** Slurm reserves the devices itself. This only keeps the view of the queue current. */
  reserve(): () => void {
    const follower = this.context.queue.follow();
    return () => follower[Symbol.dispose]();
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

/** Slurm's refusals of settings that can never run a job. Others may be temporary, for example when all nodes are down. */
const permanent =
  /invalid|not found|permission|denied|unrecognized|unknown|must|not allowed|illegal|requires/i;

const refusal = (message: string): SetupError => new SetupError(`--executor slurm: ${message}`);

/**
 * Checks whether Slurm accepts jobs with these settings.
 * @throws SetupError if commands are missing or Slurm would refuse every job, but not if it does not answer
 */
async function examineSlurm(settings: SlurmSettings, slurm: Slurm, cluster: Cluster): Promise<ClusterReport> {
  const { partition } = settings.options;
  const missing = requiredCommands.filter(
    (name) => findProgram(name, settings.environment.PATH ?? '') === undefined,
  );
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
  if (nodes.length === 0 && partition !== null) {
    const there = (await slurm.partitions()).join(', ');
    throw new SetupError(
      `--slurm-partition ${partition}: the cluster has no partition ${partition} with nodes; it has: ${there}`,
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
  const settings = { options, environment, passEnvironment: [] };
  const slurm = new Slurm(settings);
  return examineSlurm(settings, slurm, new Cluster(options.partition, (words) => slurm.sinfo(words)));
}

/**
 * Opens the executor of a cluster. If Slurm answers, the executor knows the jobs that an earlier server has left in the queue.
 * @throws SetupError
 */
export async function openSlurm(
  settings: SlurmExecutorSettings,
): Promise<{ readonly executor: SlurmExecutor; readonly cluster: ClusterReport }> {
  const executor = new SlurmExecutor(settings);
  const { slurm, cluster } = executor.context;
  const [report] = await Promise.all([examineSlurm(settings, slurm, cluster), executor.start()]);
  return { executor, cluster: report };
}
