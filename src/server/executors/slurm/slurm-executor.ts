import { existsSync } from 'node:fs';
import path from 'node:path';
import { ServiceError } from '../../../contract/index.js';
import { Turns } from '../../../files/index.js';
import { runFiles } from '../../../runner/index.js';
import type {
  AskedDevices,
  Device,
  DeviceMemory,
  DeviceRequest,
  Executor,
  JobPlace,
  RunEvent,
  RunOrder,
} from '../index.js';
import { hasRun, Notices } from './batch-script.js';
import { Cluster } from './cluster.js';
import { cancelUnstarted, type SlurmContext } from './context.js';
import { type OwnerLimit, OwnerQuota } from './owner-quota.js';
import { JobQueue, phaseOf } from './queue.js';
import type { Rank } from './queued-job.js';
import { RunFollower } from './run-follower.js';
import { Slurm, type SlurmSettings } from './slurm.js';
import { SlurmRun } from './slurm-run.js';

export interface SlurmExecutorSettings
  extends SlurmSettings,
    Pick<SlurmContext, 'killGrace' | 'maxLogBytes' | 'report'> {
  /** GPUs that an owner may have at once; null for any number. */
  readonly mostGpus?: OwnerLimit;
  /** The same for jobs. */
  readonly mostJobs?: OwnerLimit;
}

const compare = (a: Rank, b: Rank): number => a[0] - b[0] || a[1] - b[1];

/** Runs jobs on the nodes of a Slurm cluster: Slurm queues, places and limits them, and a runner on the node runs them. */
export class SlurmExecutor implements Executor {
  readonly #context: SlurmContext;
  readonly #notices: Notices;
  readonly #runs = new Set<SlurmRun>();
  #arrivals = 0;

  /** @throws the system's error if the file of the notices cannot be made */
  constructor(settings: SlurmExecutorSettings) {
    const { options, report, mostGpus, mostJobs } = settings;
    const slurm = new Slurm(settings);
    const queue = new JobQueue((words) => slurm.squeue(words));
    this.#context = {
      ...settings,
      slurm,
      queue,
      cluster: new Cluster(options.partition, (words) => slurm.sinfo(words)),
      quota: new OwnerQuota(mostGpus, mostJobs),
      turns: new Turns(1),
    };
    this.#notices = new Notices(settings.notices);
    let isOut = false;
    queue.on('refreshed', () => {
      if (queue.problem !== null && !isOut)
        report('Slurm does not answer; running jobs continue', queue.problem);
      if (queue.problem === null && isOut) report('Slurm answers again', 'jobs are submitted to it');
      isOut = queue.problem !== null;
      for (const run of this.#runs) run.wake();
    });
    this.#notices.on('notice', (id) => {
      for (const run of this.#runs) if (run.id === null || run.id === id) run.wake();
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
    this.#notices.start();
    void run.over.then(() => {
      this.#runs.delete(run);
      if (this.#runs.size === 0) this.#notices.stop();
    });
    return run.events();
  }

  /** The position of a job among those that wait: 1 is next. */
  #positionOf(run: SlurmRun): number {
    const own = run.rank;
    if (own === null) return this.#runs.size;
    return [...this.#runs].filter(({ rank }) => rank !== null && compare(rank, own) < 0).length + 1;
  }

  async stop(job: JobPlace): Promise<void> {
    const runs = [...this.#runs].filter((run) => run.path === job.path);
    for (const run of runs) run.stop();
    if (runs.length === 0) await this.#stopUnknown(job);
    await Promise.all(runs.map(({ over }) => over));
  }

  /** Ends a job of which only the directory is known. */
  async #stopUnknown(job: JobPlace): Promise<void> {
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

  isRunning({ path: directory }: JobPlace): boolean {
    const { end } = runFiles(directory);
    if (!hasRun(directory) || existsSync(end)) return false;
    const { queue } = this.#context;
    return queue.view === null || queue.rowsOf(directory).some((row) => phaseOf(row) === 'active');
  }

  /** Includes jobs that wait in Slurm although their directories were removed. */
  runningUnder(parent: string): readonly JobPlace[] {
    const rows = this.#context.queue.view?.rows ?? [];
    const below = rows.filter((row) => phaseOf(row) !== 'ended' && path.dirname(row.directory) === parent);
    const running = below.filter(
      ({ directory }) => !existsSync(directory) || this.isRunning({ id: '', path: directory }),
    );
    return running.map(({ jobId, directory }) => ({ id: jobId, path: directory }));
  }

  /** Slurm itself reserves the devices of a job; meanwhile the queue is kept up to date for questions about the job. */
  hold(): () => void {
    return this.#context.queue.follow();
  }
}
