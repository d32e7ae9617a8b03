import { oneLine } from '../../../contract/index.js';
import { writeJsonFile } from '../../../files/index.js';
import { type RunRequest, runFiles } from '../../../runner/index.js';
import { passedNames } from '../../sandbox/index.js';
import { whenThereIsRoom } from '../../when-there-is-room.js';
import {
  checkRunnerRoom,
  type Ended,
  type Grant,
  gpusOf,
  type Placed,
  type RunEvent,
  type RunOrder,
  unrecordedEnd,
  type Waiting,
} from '../index.js';
import { allowStart, hasRun, type Placement } from './batch-script.js';
import type { SlurmContext } from './context.js';
import { QueuedJob, type Rank } from './queued-job.js';
import { RunFollower } from './run-follower.js';
import { deviceVariables } from './slurm.js';

/**
 * The variables of its Slurm job that a command gets. With all of them, some frameworks would assume that it is one of
 * many tasks.
 */
const jobVariables = [
  'SLURM_JOB_ID',
  'SLURM_JOB_NODELIST',
  'SLURMD_NODENAME',
  'SLURM_JOB_GPUS',
  'SLURM_CPUS_PER_TASK',
  'SLURM_CPUS_ON_NODE',
  'SLURM_MEM_PER_NODE',
];

/**
 * The devices of a placement. GPUs have their numbers in CUDA_VISIBLE_DEVICES on the node. If Slurm names them by UUID,
 * they are numbered from 0, as CUDA does in that case.
 */
function grantOf({ devices }: Placement, cpuSlots: number): Grant {
  const isNumbered = devices.every((each) => /^\d+$/.test(each));
  const gpus = devices.map((each, index) => (isNumbered ? Number(each) : index));
  return {
    gpus,
    gpuUuids: isNumbered ? [] : devices,
    cpuSlots: gpus.length > 0 ? 0 : cpuSlots,
  };
}

/** Why a job with GPUs is not started: it would run on the CPU, or on somebody else's GPU. */
const withoutGpus = (node: string, id: number | null): string =>
  `Slurm granted it GPUs, but node ${oneLine(node)} does not say which (Slurm job ${id}): neither CUDA_VISIBLE_DEVICES nor ` +
  'SLURM_JOB_GPUS is set there; the admin of the cluster gives them device files in gres.conf, or --cpu runs it without';

/** The request to the runner on the node. The runner inherits the variables with which Slurm names the GPUs there. */
function runRequest(
  order: RunOrder,
  { areNamed }: Placement,
  grant: Grant,
  context: SlurmContext,
): RunRequest {
  const { directory, environment } = order;
  const { passEnvironment: added, maxLogBytes, killGrace } = context;
  const hasGpus = grant.gpus.length > 0;
  const inherited = passedNames(context.environment, { isSandboxed: false, network: true, added });
  const slurmVariables = [...jobVariables, ...(hasGpus ? deviceVariables : [])];
  return {
    jobId: directory.id,
    command: order.command(grant),
    wrapper: [],
    limits: { memory: null, processes: null },
    isSandboxed: false,
    directory: directory.workspace,
    output: directory.output,
    inherited: [...new Set([...inherited, ...slurmVariables])],
    environment: {
      ...environment,
      // With this order CUDA numbers GPUs as Slurm does.
      ...(hasGpus ? { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' } : {}),
      ...(hasGpus && areNamed ? {} : { CUDA_VISIBLE_DEVICES: grant.gpus.join(',') }),
    },
    maxLogBytes,
    killGrace,
    gpuUuids: grant.gpuUuids,
  };
}

/** One job of this executor, from Slurm's queue to its end. */
export class SlurmRun {
  /** Resolves when this executor is done with it. */
  readonly over: Promise<void>;
  readonly #queued: QueuedJob;
  readonly #unfollow: () => void;
  #settle = () => {};
  #isStopped = false;
  #isLaunched = false;
  #follower: RunFollower | null = null;

  /**
   * @param arrival its number in order of arrival
   * @param position its position among the waiting jobs
   */
  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
    arrival: number,
    position: (run: SlurmRun) => number,
  ) {
    this.over = new Promise((resolve) => {
      this.#settle = resolve;
    });
    this.#unfollow = context.queue.follow();
    this.#queued = new QueuedJob(order, context, arrival, () => position(this));
  }

  get path(): string {
    return this.order.directory.path;
  }

  /** Its id in Slurm, once that is known. */
  get id(): number | null {
    return this.#queued.id;
  }

  /** Its sort key among the waiting jobs; null if it does not wait. */
  get rank(): Rank | null {
    return this.#queued.rank;
  }

  /** Makes it check what has changed, after an answer of squeue. */
  wake(): void {
    this.#queued.wake();
    this.#follower?.wake();
  }

  /** Ends it in any state; `over` resolves when it has ended. */
  stop(): void {
    this.#isStopped = true;
    this.#queued.stop();
    this.#follower?.stop();
  }

  async *events(): AsyncGenerator<RunEvent, void> {
    let end: Ended | null = null;
    try {
      end = yield* this.#run();
    } finally {
      await this.#queued.leave(this.#follower !== null);
      this.#unfollow();
      this.#settle();
    }
    yield end ?? unrecordedEnd(null, 'It was stopped before it had started');
  }

  /** @returns null if it was stopped before it had started */
  async *#run(): AsyncGenerator<Waiting | Placed, Ended | null> {
    while (!this.#isLaunched && !hasRun(this.path)) {
      const found = yield* this.#queued.untilPlaced();
      if (typeof found === 'string') return unrecordedEnd(null, found);
      if (found === null) break;
      const { devices } = this.order;
      if (gpusOf(devices) > 0 && found.devices.length === 0)
        return unrecordedEnd(null, withoutGpus(found.node, this.id));
      const grant = grantOf(found, devices.kind === 'cpu' ? devices.workers : 1);
      yield { kind: 'placed', where: this.#describe(found, grant), grant };
      this.#isLaunched = await this.#launch(found, grant);
      if (this.#isStopped) break;
      if (!this.#isLaunched) this.#queued.submit();
    }
    if (!this.#isLaunched && !hasRun(this.path)) return null;
    this.#follower = new RunFollower(this.order, this.context, this.id);
    if (this.#isStopped) this.#follower.stop();
    return await this.#follower.ended();
  }

  /** Where it runs, for the log. */
  #describe({ node }: Placement, { gpus }: Grant): string {
    const devices = gpus.length > 0 ? `GPU ${gpus.join(', ')}` : 'the CPU';
    return `${devices} of node ${oneLine(node)} (Slurm job ${this.id})`;
  }

  /** Lets the batch script start the runner. @returns false if the job was stopped or has ended in Slurm */
  async #launch(found: Placement, grant: Grant): Promise<boolean> {
    const { order, path: directory, id } = this;
    if (id === null) return false;
    const launch = async () => {
      checkRunnerRoom(directory);
      // After a power cut, there is no runner to read it.
      writeJsonFile(runFiles(directory).request, runRequest(order, found, grant, this.context), {
        isKept: false,
      });
      allowStart(directory, id);
    };
    return await whenThereIsRoom(
      launch,
      () => this.#isStopped || this.#queued.isGone(),
      (cause) =>
        this.context.report(`Job ${order.directory.id} waits until the machine has room for it`, cause),
    );
  }
}
