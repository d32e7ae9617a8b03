import { existsSync } from 'node:fs';
import path from 'node:path';
import { ServiceError } from '../../../contract/errors.js';
import { Turns } from '../../../files/turns.js';
import { runFiles } from '../../../runner/protocol.js';
import type {
  AskedDevices,
  Device,
  DeviceMemory,
  DeviceRequest,
  Executor,
  JobPlace,
  RunEvent,
  RunOrder,
} from '../executor.js';
import { Cluster } from './cluster.js';
import type { SlurmContext } from './context.js';
import { Doorbell } from './doorbell.js';
import { hasRun } from './has-run.js';
import { JobQueue } from './job-queue.js';
import { OwnerGate } from './owner-gate.js';
import { stageOf } from './queue-rows.js';
import type { Rank } from './queued-job.js';
import { RunFollower } from './run-follower.js';
import { Slurm, type SlurmSettings } from './slurm.js';
import { SlurmRun } from './slurm-run.js';
import { withdraw } from './withdraw.js';

export interface SlurmExecutorSettings
  extends SlurmSettings,
    Pick<SlurmContext, 'killGrace' | 'maxLogBytes' | 'report'> {
  /** GPUs that an owner may have at once; null for any number. */
  readonly mostGpus?: (owner: string | null) => number | null;
  /** The same for jobs. */
  readonly mostJobs?: (owner: string | null) => number | null;
}

const compare = (a: Rank, b: Rank): number => a[0] - b[0] || a[1] - b[1];

/** Runs jobs on the nodes of a Slurm cluster: Slurm queues, places and limits them, and the runner on the node does the rest. */
export class SlurmExecutor implements Executor {
  readonly #context: SlurmContext;
  readonly #bell: Doorbell;
  readonly #runs = new Set<SlurmRun>();
  #arrivals = 0;

  /** @throws the system's error if the doorbell cannot be made */
  constructor(settings: SlurmExecutorSettings) {
    const { environment, passEnvironment, killGrace, maxLogBytes, report, mostGpus, mostJobs } = settings;
    const slurm = new Slurm(settings);
    const queue = new JobQueue((words) => slurm.squeue(words));
    this.#context = {
      slurm,
      queue,
      cluster: new Cluster(settings.options.partition, (words) => slurm.sinfo(words)),
      gate: new OwnerGate(mostGpus ?? (() => null), mostJobs),
      turns: new Turns(1),
      environment,
      passEnvironment,
      killGrace,
      maxLogBytes,
      report,
    };
    this.#bell = new Doorbell(settings.bell);
    let isOut = false;
    queue.on('look', () => {
      if (queue.problem !== null && !isOut) report('Slurm does not answer; what runs goes on', queue.problem);
      if (queue.problem === null && isOut) report('Slurm answers again', 'jobs are submitted to it');
      isOut = queue.problem !== null;
      for (const run of this.#runs) run.wake();
    });
    this.#bell.on('ring', (id) => {
      for (const run of this.#runs) if (run.id === null || run.id === id) run.wake();
    });
  }

  /** Asks Slurm what there is, so that what follows knows it. A Slurm that does not answer is asked again later. */
  async start(): Promise<void> {
    await Promise.all([this.#context.cluster.refresh(), this.#context.queue.look()]);
  }

  /** The nodes of the cluster. */
  get cluster(): Cluster {
    return this.#context.cluster;
  }

  /** Looks again who may be given what, after the limits of owners have changed. */
  reconsider(): void {
    this.#context.gate.reconsider();
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
    const unfollow = this.#bell.follow();
    void run.over.then(() => {
      this.#runs.delete(run);
      unfollow();
    });
    return run.events();
  }

  /** The place of a job among those that wait: 1 is next. */
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

  /** Ends a job of which only the directory is known, or was. */
  async #stopUnknown(job: JobPlace): Promise<void> {
    if (existsSync(runFiles(job.path).end)) return;
    const { queue } = this.#context;
    const wakeAll = () => follower.wake();
    const follower = new RunFollower({ directory: job, timeLimit: null }, this.#context, null);
    const leave = queue.follow();
    queue.on('look', wakeAll);
    try {
      if (hasRun(job.path)) {
        follower.stop();
        await follower.ended();
      } else {
        await withdraw(job.path, this.#context);
      }
    } finally {
      queue.off('look', wakeAll);
      leave();
    }
  }

  isRunning({ path: directory }: JobPlace): boolean {
    const { end } = runFiles(directory);
    if (!hasRun(directory) || existsSync(end)) return false;
    const { queue } = this.#context;
    return queue.view === null || queue.rowsOf(directory).some((row) => stageOf(row) === 'active');
  }

  /** Also jobs that wait in Slurm although their directories were removed. */
  runningUnder(parent: string): readonly JobPlace[] {
    const rows = this.#context.queue.view?.rows ?? [];
    const below = rows.filter((row) => stageOf(row) !== 'ended' && path.dirname(row.directory) === parent);
    const running = below.filter(
      ({ directory }) => !existsSync(directory) || this.isRunning({ id: '', path: directory }),
    );
    return running.map(({ jobId, directory }) => ({ id: jobId, path: directory }));
  }

  /** Slurm holds the devices of a job itself; what is asked of the job meanwhile is answered by fresh looks. */
  hold(): () => void {
    return this.#context.queue.follow();
  }
}
