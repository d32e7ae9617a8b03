import { oneLine } from '../../../contract/index.js';
import { deferred, writeJsonFile } from '../../../files/index.js';
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
import {
  allowStart,
  hasRun,
  lastOutput,
  type Placement,
  placementOf,
  refreshDirectory,
} from './batch-script.js';
import { cancelUnstarted, type Rank, type Ranked, type SlurmContext } from './context.js';
import { isUndecided, phaseOf, type QueueFollower, type QueueRow, waitingWords } from './queue.js';
import { failedStart, RunFollower } from './run-follower.js';
import { deviceVariables } from './slurm.js';
import { Submission } from './submission.js';

/** Milliseconds before a job counts as waiting. Most start sooner. */
const briefWait = 3000;
/** Maximum number of submissions of a job if its submissions end before it starts: nodes may fail one after another. */
const maxSubmissions = 10;
/**
 * States in Slurm after which a job is not submitted again: it would end the same way, or somebody ended it on purpose.
 */
const finalStates = ['FAILED', 'CANCELLED', 'TIMEOUT', 'OUT_OF_MEMORY'];

/**
 * The variables of the Slurm job that its command gets. Given all of them, some frameworks would assume that the command is one
 * of many tasks.
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

/**
 * One job of this executor, from Slurm's queue to its end. It is submitted, and submitted again if its node fails before the
 * start. Its runner starts once Slurm has placed it.
 */
export class SlurmRun {
  readonly #over = deferred<void>();
  readonly #wake: QueueFollower;
  readonly #createdAt = performance.now();
  readonly #returnGpus: () => void;
  #submission: Submission | null = null;
  #submissions = 0;
  /** When it was last submitted or found. Earlier answers of squeue are ignored. */
  #since = this.#createdAt;
  #isWaiting = false;
  #isStopped = false;
  #isLaunched = false;
  #follower: RunFollower | null = null;

  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
  ) {
    const { owner, devices, grant } = order;
    const { quota, queue } = context;
    this.#wake = queue.follow();
    this.#returnGpus = hasRun(this.path)
      ? quota.hold(owner, grant?.gpus.length ?? gpusOf(devices))
      : quota.take(owner, gpusOf(devices), () => this.#submit());
  }

  /** Resolves when this executor is done with it. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  get path(): string {
    return this.order.directory.path;
  }

  /** Its id in Slurm, once that is known. */
  get id(): number | null {
    return this.#submission?.id ?? null;
  }

  get rank(): Rank | null {
    if (!this.#isWaiting) return null;
    const row = this.#row;
    // Jobs that are not in Slurm's queue yet come after those that are, in order of arrival.
    return row ? [-row.priority, row.id] : [1, this.#createdAt];
  }

  get #row(): QueueRow | undefined {
    return this.context.queue.rowOf(this.id);
  }

  /** Ends it in any state; `over` resolves when it has ended. */
  stop(): void {
    this.#isStopped = true;
    this.#wake.wake();
    this.#follower?.stop();
  }

  async *events(): AsyncGenerator<RunEvent, void> {
    let end: Ended | null = null;
    try {
      end = yield* this.#run();
    } finally {
      this.#isWaiting = false;
      if (this.#follower === null) await this.#removeFromQueue();
      this.#returnGpus();
      this.#wake[Symbol.dispose]();
      this.#over.resolve();
    }
    yield end ?? unrecordedEnd(null, 'It was stopped before it started');
  }

  /** @returns null if it was stopped before it had started */
  async *#run(): AsyncGenerator<Waiting | Placed, Ended | null> {
    while (!this.#isLaunched && !hasRun(this.path)) {
      const found = yield* this.#untilPlaced();
      if (typeof found === 'string') return unrecordedEnd(null, found);
      if (found === null) break;
      const { devices } = this.order;
      if (gpusOf(devices) > 0 && found.devices.length === 0)
        return unrecordedEnd(null, withoutGpus(found.node, this.id));
      const grant = grantOf(found, devices.kind === 'cpu' ? devices.workers : 1);
      yield { kind: 'placed', where: this.#describe(found, grant), grant };
      this.#isLaunched = await this.#launch(found, grant);
      if (this.#isStopped) break;
      if (!this.#isLaunched) this.#submit();
    }
    if (!this.#isLaunched && !hasRun(this.path)) return null;
    this.#follower = new RunFollower(this.order, this.context, this.id);
    if (this.#isStopped) this.#follower.stop();
    return await this.#follower.ended();
  }

  /** Submits it to Slurm, for the first time or again. */
  #submit(): void {
    this.#submissions += 1;
    this.#since = performance.now();
    const changed = () => {
      this.#since = performance.now();
      this.#wake.wake();
    };
    this.#submission = new Submission(this.order, this.context, changed, this.#submissions === 1);
  }

  /**
   * Follows it through Slurm's queue.
   * @returns where it was placed; null if it was stopped or already runs; a sentence if it cannot run
   */
  async *#untilPlaced(): AsyncGenerator<Waiting, Placement | string | null> {
    let last: Waiting | undefined;
    this.#isWaiting = false;
    while (!this.#isStopped && !hasRun(this.path)) {
      const placement = this.id === null ? null : placementOf(this.path, this.id);
      // The placement does not count if the batch script gave up waiting for `go`.
      if (placement && !this.#isGone()) return placement;
      const refusal = this.#submission?.refusal ?? this.#failedStart();
      if (refusal !== null) return refusal;
      const reason = this.#waitsFor();
      this.#isWaiting = reason !== null;
      const position = this.#position();
      if (reason !== null && (last?.for !== reason || last.position !== position)) {
        last = { kind: 'waiting', for: reason, position };
        yield last;
      } else {
        await this.#wake.next();
      }
    }
    return null;
  }

  /** Its position among the waiting jobs: 1 is next. */
  #position(): number {
    const own = this.rank;
    const isBefore = ({ rank }: Ranked) => own && rank && (rank[0] - own[0] || rank[1] - own[1]) < 0;
    return [...this.context.runs].filter(isBefore).length + 1;
  }

  /** Whether Slurm has ended it. */
  #isGone(): boolean {
    const row = this.#row;
    return row !== undefined && phaseOf(row) === 'ended';
  }

  async #removeFromQueue(): Promise<void> {
    if (this.#submission === null) return;
    await this.#submission.giveUp();
    if (this.id === null && !this.#submission.mayBeQueued) return;
    await cancelUnstarted(this.path, this.context);
  }

  /** What it waits for, as a phrase; null if it has waited only briefly. */
  #waitsFor(): string | null {
    const { queue, quota } = this.context;
    if (this.#submission === null) return quota.describe(this.order.owner);
    const { obstacle } = this.#submission;
    if (obstacle !== null) return obstacle;
    const isBrief = performance.now() - this.#createdAt < briefWait;
    const row = this.#row;
    if (row && phaseOf(row) === 'waiting' && !(isBrief && isUndecided(row.reason))) {
      return waitingWords(row.reason);
    }
    if (isBrief) return null;
    if (row) return `its node to be ready (Slurm: ${row.state})`;
    if (queue.problem !== null) return `Slurm, which does not answer (${queue.problem})`;
    return this.id === null ? 'its turn to be submitted to Slurm' : 'Slurm to start it';
  }

  /**
   * Submits it again if Slurm has ended it before the start for a reason that may not recur.
   * @returns a sentence if it cannot run
   */
  #failedStart(): string | null {
    const { id } = this;
    const { queue } = this.context;
    if (id === null || queue.view === null || queue.view.at < this.#since) return null;
    const row = this.#row;
    if (row && phaseOf(row) !== 'ended') return null;
    // An NFS client may learn only now that it has run.
    refreshDirectory(this.path);
    if (hasRun(this.path)) return null;
    const isStillQueued = queue.rowsOf(this.path).some((each) => phaseOf(each) !== 'ended');
    const mayRecover = row === undefined || !finalStates.includes(row.state);
    if (isStillQueued || (mayRecover && this.#submissions < maxSubmissions)) {
      this.#submit();
      return null;
    }
    return failedStart({ id, state: row?.state ?? null, node: row?.node ?? '' }, lastOutput(this.path));
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
      () => this.#isStopped || this.#isGone(),
      (cause) =>
        this.context.report(`Job ${order.directory.id} waits until the machine has room for it`, cause),
    );
  }
}
