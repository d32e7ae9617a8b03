import { EventEmitter } from 'node:events';
import { type Owner, ownerInWords } from '../../../access/index.js';
import { counted, formatBytes, type OutOfUse, ServiceError } from '../../../contract/index.js';
import { deferred } from '../../../files/index.js';
import type { KnownGpu } from '../../devices/index.js';
import { type Grant, gpusOf, type OwnerLimits, type RunOrder } from '../index.js';
import { type Queued, Shares, TurnsOfOwners } from './fair-share.js';

/** A place in the queue. */
export interface Ticket {
  /** Its number in the order of arrival; null for a job that an earlier server started. */
  readonly arrival: number | null;
  /** Resolves with the grant. Rejects if the ticket is cancelled, or if its GPU turns out not to exist. */
  readonly granted: Promise<Grant>;
  /** Position in the queue: 1 is next; null once granted or cancelled. */
  position(): number | null;
  /** A phrase for what it waits for. */
  waitingFor(): string;
  cancel(): void;
}

/** The job was cancelled while it was waiting. */
export class TicketCancelled extends Error {}

/** A job that holds devices. */
export interface ScheduledJob extends Pick<RunOrder, 'owner' | 'needs' | 'isAlone'> {
  readonly id: string;
}

/** A job that requests devices. */
export interface DeviceOrder extends ScheduledJob, Pick<RunOrder, 'devices' | 'isAccepted'> {
  /** Ranks the GPUs that it may use: those with a lower number are preferred. */
  readonly rank?: (gpu: number) => number;
  /** Its earlier arrival number, if it was granted devices before and could not start. */
  readonly former?: number | null;
}

/** What jobs book: a GPU, by its id, or a part of the machine. */
type Resource = number | 'slots' | 'memory' | 'cpus';

/** Amounts of resources: bytes of GPUs and of memory, numbers of CPU slots and CPUs. */
type Amounts = Map<Resource, number>;

const isDevice = (what: Resource | null): boolean => typeof what === 'number' || what === 'slots';

/** Where a job fits, or will fit soonest. */
interface Place {
  readonly gpus: readonly KnownGpu[];
  /** What the job takes; until it fits, this is held back from later jobs. */
  readonly takes: readonly (readonly [Resource, number])[];
  /** What is missing; null if it fits. */
  readonly missing: Resource | null;
}

interface Turn {
  readonly job: QueuedJob;
  readonly isFirst: boolean;
  readonly turns: TurnsOfOwners;
}

/** Waiting jobs for which a resource is held back. */
interface Ahead {
  readonly first: ScheduledJob;
  readonly count: number;
}

interface QueuedJob extends Queued, DeviceOrder {
  readonly rank: (gpu: number) => number;
  readonly grant: (grant: Grant) => void;
  readonly fail: (cause: Error) => void;
  // Set when the queue is counted:
  /** Its position among all waiting jobs. */
  position: number;
  missing: Resource | null;
  /** The jobs for which the missing resource is held back; null if it is in use. */
  ahead: Ahead | null;
}

/** Added to the rank of a GPU that other programs have filled: more than any rank. */
const filledRank = 1000;

/** What a scheduler needs from outside. */
export interface SchedulerSettings extends Partial<OwnerLimits> {
  /** Why no job may start at the moment, even if devices are free, as a phrase; null if jobs may start. */
  readonly pause?: () => string | null;
  /** Why new jobs do not get a GPU; null if they do. */
  readonly outOf?: (gpu: KnownGpu) => OutOfUse | null;
  /** Whether other programs have filled a GPU: such a GPU is the last choice for jobs that may have any. */
  readonly isFilled?: (gpu: KnownGpu) => boolean;
  /** Memory of a GPU in bytes; null if it is not known. */
  readonly memoryOf?: (gpu: KnownGpu) => number | null;
  /** Bytes that each job on a shared GPU takes beyond what its app declares; null if jobs do not share GPUs. */
  readonly gpuMargin?: number | null;
  /** What all jobs together can have of the machine: bytes of memory, and CPUs. */
  readonly machine?: { readonly memory: number; readonly cpus: number };
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

/** Subtracts what a job takes from what is left. */
function take(left: Amounts, takes: Place['takes']): void {
  for (const [what, amount] of takes) left.set(what, (left.get(what) ?? 0) - amount);
}

/** The first resource of which a job takes more than is left. */
const missingIn = (left: ReadonlyMap<Resource, number>, takes: Place['takes']) =>
  takes.find(([what, amount]) => amount > (left.get(what) ?? 0));

/** Whether a job holds this GPU, whose id may have changed since the grant. */
const isOn = ({ gpus, gpuUuids }: Grant, { id, uuid }: KnownGpu): boolean =>
  gpus.includes(id) || gpuUuids.includes(uuid);

/**
 * Grants GPUs and CPU slots to owners in turn (`TurnsOfOwners`), and books what jobs declare of a shared GPU and of the machine's
 * memory and CPUs. A job gets all that it needs or nothing. What a waiting job needs, on the GPU where it will fit soonest, is
 * held back from later jobs; a later job that needs none of it runs at once. A job whose owner has reached a limit of GPUs or
 * jobs waits, and so do later GPU jobs of that owner; nothing is held back for them. Emits `change` when positions, or what jobs
 * wait for, may have changed, but at most once in as many milliseconds as jobs wait: waking thousands of jobs at each arrival
 * would be too slow.
 */
export class Scheduler extends EventEmitter<{ change: [] }> {
  /** Lowest id first; null while the GPUs are not known, in which case jobs that want one wait. */
  #gpus: readonly KnownGpu[] | null = null;
  /**
   * The jobs that hold devices. Two jobs that do not share can hold the same GPU only after a restart: if the first one had
   * released it and was being packed when the second one got it, or if the ids of GPUs have changed.
   */
  readonly #held = new Map<Grant, ScheduledJob>();
  /** In the order of arrival. */
  readonly #queue = new Set<QueuedJob>();
  /** Whether the positions in the queue have been counted since its last change. */
  #areCounted = false;
  /** Whether jobs of an earlier server are joining the queue, one after the other. */
  #isResuming = false;
  /** What `pause` returned at the last pass over the queue. */
  #pause: string | null = null;
  #lastChange = 0;
  #changeTimer: NodeJS.Timeout | undefined;
  #arrivals = 0;
  readonly #machine: { readonly memory: number; readonly cpus: number };
  readonly #now: () => number;
  readonly #gpuShares: Shares;
  readonly #cpuShares: Shares;
  readonly #gpuTurns: TurnsOfOwners;
  readonly #cpuTurns: TurnsOfOwners;

  /** @param gpus null if they are set later, by `setGpus` */
  constructor(
    gpus: readonly KnownGpu[] | null,
    private readonly cpuSlots: number,
    private readonly settings: SchedulerSettings = {},
  ) {
    super();
    this.#machine = settings.machine ?? { memory: Infinity, cpus: Infinity };
    this.#now = settings.now ?? (() => performance.now());
    this.#gpuShares = new Shares(this.#now);
    this.#cpuShares = new Shares(this.#now);
    this.#gpuTurns = new TurnsOfOwners(this.#gpuShares, this.#now);
    this.#cpuTurns = new TurnsOfOwners(this.#cpuShares, this.#now);
    // There is one listener for each waiting job.
    this.setMaxListeners(0);
    if (gpus) this.setGpus(gpus);
  }

  /**
   * Sets the GPUs, when they become known and whenever they change. Jobs keep what they hold, even if the ids of their GPUs have
   * changed. A job that was queued before the GPUs were known and wants one that does not exist is rejected. A job that was
   * accepted while its GPU existed waits until that GPU is back.
   */
  setGpus(gpus: readonly KnownGpu[]): void {
    const isFirst = this.#gpus === null;
    this.#gpus = [...gpus].sort((a, b) => a.id - b.id);
    for (const waiting of this.#queue) {
      const problem = isFirst && !waiting.isAccepted ? this.impossible(waiting) : null;
      if (problem === null) continue;
      this.#queue.delete(waiting);
      waiting.fail(new ServiceError('unknownGpu', problem));
    }
    this.reconsider();
  }

  /** Why a new job can never get its devices here; null if it can, or if that is not known yet. */
  impossible(job: Pick<DeviceOrder, 'devices' | 'needs'>): string | null {
    if (!this.#isUnseen(job)) return null;
    const known = this.#gpus?.map(({ id }) => id).join(', ') || 'none';
    if (job.devices.kind === 'gpus') {
      return `This server has no GPU ${this.#unseen(job).join(', ')}; it has: ${known}`;
    }
    const size = this.#gpus?.length ? ` with ${formatBytes(job.needs.gpuMemory ?? 0)} of memory` : '';
    const advice =
      job.needs.gpu === 'required' ? 'its app needs one' : "ask for the CPU with 'cpu' to run it there";
    return `This server has no GPU${size}; ${advice}`;
  }

  /** Whether no job holds this GPU. */
  isFree(gpu: KnownGpu): boolean {
    return ![...this.#held.keys()].some((grant) => isOn(grant, gpu));
  }

  /** Bytes that a job takes of each of its GPUs if it shares them; null if it has them to itself. */
  gpuShareOf({ needs: { gpuMemory }, isAlone }: Pick<ScheduledJob, 'needs' | 'isAlone'>): number | null {
    const { gpuMargin = null } = this.settings;
    return gpuMargin === null || isAlone || !gpuMemory ? null : gpuMemory + gpuMargin;
  }

  /** Bytes of a GPU that no job has booked. */
  leftOf(gpu: number): number {
    return this.#left().get(gpu) ?? 0;
  }

  /** Number of waiting jobs. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** The GPUs that a job may have, in the order in which it names them. */
  #gpusFor({ devices, needs }: Pick<DeviceOrder, 'devices' | 'needs'>): readonly KnownGpu[] {
    const gpus = this.#gpus ?? [];
    if (devices.kind === 'gpus')
      return devices.ids.flatMap((each) => gpus.find(({ id }) => id === each) ?? []);
    const isEnough = (gpu: KnownGpu) => (this.settings.memoryOf?.(gpu) ?? Infinity) >= (needs.gpuMemory ?? 0);
    return devices.kind === 'cpu' ? [] : gpus.filter(isEnough);
  }

  /** The GPU ids that a job names and that are currently missing; empty while the GPUs are not known. */
  #unseen({ devices }: Pick<DeviceOrder, 'devices'>): readonly number[] {
    const gpus = this.#gpus;
    if (gpus === null || devices.kind !== 'gpus') return [];
    return devices.ids.filter((each) => !gpus.some(({ id }) => id === each));
  }

  #isUnseen(job: Pick<DeviceOrder, 'devices' | 'needs'>): boolean {
    if (job.devices.kind !== 'anyGpu') return this.#unseen(job).length > 0;
    return this.#gpus !== null && this.#gpusFor(job).length === 0;
  }

  /**
   * Counts what an owner used before this server started.
   * @param gpuTime milliseconds on a GPU, times the number of GPUs
   * @param ago milliseconds since the end of that use
   */
  remember(owner: Owner, gpuTime: number, ago: number): void {
    this.#gpuShares.remember(owner, gpuTime, ago);
  }

  #outOf(gpu: KnownGpu): OutOfUse | null {
    return this.settings.outOf?.(gpu) ?? null;
  }

  /**
   * Which GPUs that a job waits for are out of use, and why, as the end of a phrase; empty if there are none, or if the job can
   * take another GPU.
   */
  #whyOut(job: QueuedJob): string {
    const gpus = this.#gpusFor(job);
    if (job.devices.kind === 'anyGpu' && !gpus.every((gpu) => this.#outOf(gpu))) return '';
    const idsOf = (why: OutOfUse) => gpus.filter((gpu) => this.#outOf(gpu) === why).map(({ id }) => id);
    const [faulty, drained] = [idsOf('faulty').join(', '), idsOf('drained').join(', ')];
    const broken = faulty && `; GPU ${faulty} does not work at the moment`;
    return broken + (drained && `; an admin has drained GPU ${drained}`);
  }

  /** A phrase for the part of its request that a job is missing. */
  #wanted(job: QueuedJob): string {
    const { devices, missing, needs } = job;
    if (missing === 'memory') return `${formatBytes(needs.memory ?? 0)} of memory`;
    if (missing === 'cpus') return counted(needs.cpus ?? 0, 'CPU');
    if (devices.kind === 'cpu') return devices.workers === 1 ? 'a CPU slot' : `${devices.workers} CPU slots`;
    const named = devices.kind === 'gpus' ? `GPU ${devices.ids.join(', ')}` : null;
    const size = needs.gpuMemory === null ? null : formatBytes(needs.gpuMemory);
    if (this.gpuShareOf(job) !== null)
      return named ? `${size} of memory on ${named}` : `${size} of GPU memory`;
    return named ?? (size === null ? 'a free GPU' : `a free GPU with ${size} of memory`);
  }

  /** A phrase for what a job waits for. It is shown to the job's owner, so it does not identify other owners' jobs. */
  #describe(waiting: QueuedJob): string {
    if (this.#pause !== null) return this.#pause;
    this.#count();
    const { devices, ahead, owner } = waiting;
    const words = this.#wanted(waiting);
    const limit = this.#limitOf(waiting);
    if (limit !== null) return `${words}: ${limit}`;
    if (ahead !== null) {
      const { count, first } = ahead;
      const one = first.owner === owner ? `job ${first.id}` : 'a job of somebody else';
      return `${words} (behind ${count === 1 ? one : counted(count, 'job')})`;
    }
    if (devices.kind === 'cpu') return words;
    const why = this.#whyOut(waiting);
    if (why !== '') return words + why;
    if (this.#gpus === null) return `${words} (nvidia-smi has not reported the GPUs yet)`;
    if (!this.#isUnseen(waiting)) return words;
    if (devices.kind === 'anyGpu') return `${words}; this server does not see any at the moment`;
    const unseen = this.#unseen(waiting);
    return unseen.length === devices.ids.length
      ? `${words}, which this server does not see at the moment`
      : `${words}; this server does not see GPU ${unseen.join(', ')} at the moment`;
  }

  /** Adds a job to the queue. The devices may be granted before this returns, unless an earlier server accepted the job. */
  request(order: DeviceOrder): Ticket {
    const { former = null, rank = () => 0 } = order;
    if (former === null) this.#arrivals += 1;
    const arrival = former ?? this.#arrivals;
    const { promise: granted, resolve: grant, reject: fail } = deferred<Grant>();
    const place = { position: 0, missing: null, ahead: null };
    const entry: QueuedJob = { ...order, ...place, rank, arrival, since: this.#now(), grant, fail };
    this.#queue.add(entry);
    if (order.isAccepted) this.#resume();
    else this.reconsider();
    const position = () => {
      if (!this.#queue.has(entry)) return null;
      this.#count();
      return entry.position;
    };
    const cancel = () => {
      if (!this.#queue.delete(entry)) return;
      fail(new TicketCancelled());
      this.reconsider();
    };
    return { arrival, granted, position, waitingFor: () => this.#describe(entry), cancel };
  }

  /**
   * Grants devices once all jobs of an earlier server have joined the queue, because the first to join need not be the next in
   * turn.
   */
  #resume(): void {
    this.#areCounted = false;
    if (this.#isResuming) return;
    this.#isResuming = true;
    queueMicrotask(() => {
      this.#isResuming = false;
      this.reconsider();
    });
  }

  /** Marks the devices that a job of an earlier server still holds as taken. */
  adopt(grant: Grant, job: ScheduledJob): Ticket {
    this.#hold(grant, job);
    const granted = Promise.resolve(grant);
    return { arrival: null, granted, position: () => null, waitingFor: () => '', cancel: () => {} };
  }

  #hold(grant: Grant, job: ScheduledJob): void {
    this.#held.set(grant, job);
    this.#countFor(job.owner, grant, 1);
  }

  /** Releases what a job holds. */
  release(grant: Grant): void {
    const job = this.#held.get(grant);
    if (!job) return;
    this.#held.delete(grant);
    this.#countFor(job.owner, grant, -1);
    this.reconsider();
  }

  #countFor(owner: Owner, { gpus, cpuSlots }: Grant, change: 1 | -1): void {
    this.#gpuShares.hold(owner, gpus.length * change);
    this.#cpuShares.hold(owner, cpuSlots * change);
  }

  /**
   * Goes through the queue in turn, and grants what it can. Called from outside when the limits of owners may have changed.
   */
  reconsider(): void {
    this.#areCounted = false;
    this.#pause = this.settings.pause?.() ?? null;
    // A grant can change whose turn is next and where a job fits, so the queue is considered again, as a server that starts now
    // would do.
    while (this.#pause === null && this.#queue.size > 0 && this.#grantInTurn()) {}
    this.#tellChange();
  }

  /** Goes through the queue once. @returns whether it granted something */
  #grantInTurn(): boolean {
    const { size } = this.#queue;
    const left = this.#left();
    // A queue may have thousands of jobs, and usually nothing is free, so the pass ends once nothing is left.
    const isOpen = (isCpu: boolean) =>
      [...left].some(([what, amount]) => amount > 0 && (isCpu ? what === 'slots' : typeof what === 'number'));
    for (const { place, ...turn } of this.#places(left, isOpen)) {
      if (place?.missing === null) this.#give(turn, place);
    }
    return this.#queue.size < size;
  }

  /** Emits `change`, at once or when the minimum interval has passed. */
  #tellChange(): void {
    const tell = () => {
      this.#changeTimer = undefined;
      this.#lastChange = performance.now();
      this.emit('change');
    };
    const due = this.#lastChange + this.#queue.size - performance.now();
    if (due <= 0) {
      clearTimeout(this.#changeTimer);
      tell();
    } else this.#changeTimer ??= setTimeout(tell, due).unref();
  }

  /** Determines the position of each waiting job and what it waits for. */
  #count(): void {
    if (this.#areCounted) return;
    this.#areCounted = true;
    const free = this.#left();
    const left = new Map(free);
    const keptFor = new Map<Resource, Ahead>();
    let position = 0;
    for (const { job, place } of this.#places(left, () => true)) {
      position += 1;
      job.position = position;
      // If the job would fit without the jobs before it, it waits for what is held back for them.
      const now = place && this.#placeOf(job, free, ([first]) => first);
      const [kept = null] = (now?.missing === null && missingIn(left, now.takes)) || [];
      job.missing = kept ?? place?.missing ?? null;
      job.ahead = (kept !== null && keptFor.get(kept)) || null;
      for (const [what] of place?.takes ?? []) {
        const { first, count } = keptFor.get(what) ?? { first: job, count: 0 };
        keptFor.set(what, { first, count: count + 1 });
      }
    }
  }

  /** What no job has taken of the machine and of the GPUs that are not out of use. */
  #left(): Amounts {
    const gpus = (this.#gpus ?? []).filter((gpu) => this.#outOf(gpu) === null);
    const { memory, cpus } = this.#machine;
    const left: Amounts = new Map<Resource, number>([
      ['slots', this.cpuSlots],
      ['memory', memory],
      ['cpus', cpus],
    ]);
    for (const gpu of gpus) left.set(gpu.id, this.#sizeOf(gpu));
    for (const [grant, job] of this.#held) {
      const own = gpus.filter((gpu) => isOn(grant, gpu));
      take(left, this.#bookings(job, own, grant.cpuSlots));
    }
    return left;
  }

  /** Memory of a GPU in bytes. An unknown size counts as one byte, so that no two jobs fit. */
  #sizeOf(gpu: KnownGpu): number {
    return this.settings.memoryOf?.(gpu) ?? 1;
  }

  #takenOf(gpu: KnownGpu, job: ScheduledJob): number {
    return Math.min(this.gpuShareOf(job) ?? Infinity, this.#sizeOf(gpu));
  }

  /** What a job takes with these devices. A job that needs more than exists gets all of it; otherwise it would never run. */
  #bookings(job: ScheduledJob, gpus: readonly KnownGpu[], cpuSlots: number): Place['takes'] {
    const { memory, cpus } = this.#machine;
    const all: Place['takes'] = [
      ...gpus.map((gpu) => [gpu.id, this.#takenOf(gpu, job)] as const),
      ['slots', cpuSlots],
      ['memory', Math.min(job.isAlone ? memory : (job.needs.memory ?? 0), memory)],
      ['cpus', Math.min(job.needs.cpus ?? 0, cpus)],
    ];
    return all.filter(([, amount]) => amount > 0);
  }

  /** Yields the jobs that wait for GPUs, or for CPU slots, in turn, until none of these are left. */
  *#line(isCpu: boolean, isOpen: (isCpu: boolean) => boolean): Generator<Turn, undefined> {
    if (!isOpen(isCpu)) return;
    const turns = isCpu ? this.#cpuTurns : this.#gpuTurns;
    const jobs = [...this.#queue].filter(({ devices }) => (devices.kind === 'cpu') === isCpu);
    for (const turn of turns.order(jobs)) {
      yield { ...turn, turns };
      if (!isOpen(isCpu)) return;
    }
  }

  /** Merges both lines: yields whichever of their next jobs arrived first. */
  *#inTurn(isOpen: (isCpu: boolean) => boolean): Generator<Turn, void> {
    const [gpuLine, cpuLine] = [this.#line(false, isOpen), this.#line(true, isOpen)];
    let [gpu, cpu] = [gpuLine.next().value, cpuLine.next().value];
    while (gpu || cpu) {
      if (gpu && !(cpu && cpu.job.arrival < gpu.job.arrival)) {
        yield gpu;
        gpu = gpuLine.next().value;
      } else if (cpu) {
        yield cpu;
        cpu = cpuLine.next().value;
      }
    }
  }

  /**
   * Yields the jobs in turn, each with its place; the place is null if nothing is held back for the job. After each job, its
   * place is subtracted from `left`: either the job was given it, or the job waits for it.
   */
  *#places(
    left: Amounts,
    isOpen: (isCpu: boolean) => boolean,
  ): Generator<Turn & { place: Place | null }, void> {
    const atLimit = new Set<Owner>();
    for (const turn of this.#inTurn(isOpen)) {
      const { job } = turn;
      const isGpu = job.devices.kind !== 'cpu';
      // Later GPU jobs of an owner at a limit wait as well; otherwise small ones would overtake a large one for ever.
      const isLimited = (isGpu && atLimit.has(job.owner)) || this.#limitOf(job) !== null;
      if (isLimited && isGpu) atLimit.add(job.owner);
      const place = isLimited ? null : this.#placeOf(job, left, (fitting) => this.#best(job, fitting, left));
      yield { ...turn, place };
      take(left, place?.takes ?? []);
    }
  }

  /**
   * Where a job fits into what is left, and what it takes; if it does not fit, what is held back for it. Null if its GPU is
   * missing or out of use, which may last.
   * @param choose picks one of the GPUs where the job fits
   */
  #placeOf(
    job: QueuedJob,
    left: ReadonlyMap<Resource, number>,
    choose: (fitting: readonly [KnownGpu, ...KnownGpu[]]) => KnownGpu,
  ): Place | null {
    const { devices } = job;
    let gpus = this.#gpusFor(job).filter(({ id }) => left.has(id));
    if (gpus.length < gpusOf(devices)) return null;
    if (devices.kind === 'anyGpu') {
      const lack = (gpu: KnownGpu) => this.#takenOf(gpu, job) - (left.get(gpu.id) ?? 0);
      const [first, ...others] = gpus.filter((gpu) => lack(gpu) <= 0);
      const soonest = (one: KnownGpu, other: KnownGpu) => (lack(other) < lack(one) ? other : one);
      gpus = [first ? choose([first, ...others]) : gpus.reduce(soonest)];
    }
    // A job that asks for more slots than exist gets all of them; otherwise it would never run.
    const cpuSlots = devices.kind === 'cpu' ? Math.min(devices.workers, this.cpuSlots) : 0;
    const takes = this.#bookings(job, gpus, cpuSlots);
    const [missing = null] = missingIn(left, takes) ?? [];
    // Memory and CPUs are held back for a job only once a device is free for it; otherwise a long queue for one GPU would tie up
    // the whole machine.
    return { gpus, missing, takes: isDevice(missing) ? takes.filter(([what]) => isDevice(what)) : takes };
  }

  /** Gives a waiting job its devices. */
  #give({ job, isFirst, turns }: Turn, { gpus, takes }: Place): void {
    this.#queue.delete(job);
    const gpuUuids = gpus.map(({ uuid }) => uuid).filter((uuid) => uuid !== '');
    const [, cpuSlots = 0] = takes.find(([what]) => what === 'slots') ?? [];
    const grant = { gpus: gpus.map(({ id }) => id), gpuUuids, cpuSlots };
    this.#hold(grant, job);
    if (isFirst) turns.serve(job.owner);
    job.grant(grant);
  }

  /** A phrase for the limit and use of a job's owner, if the job would exceed that limit; otherwise null. */
  #limitOf({ owner, devices }: QueuedJob): string | null {
    const { maxGpus, maxJobs } = this.settings;
    const [gpus, jobs] = [maxGpus?.(owner) ?? null, maxJobs?.(owner) ?? null];
    const heldGpus = this.#gpuShares.heldBy(owner);
    const running = jobs === null ? 0 : [...this.#held.values()].filter((job) => job.owner === owner).length;
    if (jobs !== null && running >= jobs)
      return `${ownerInWords(owner)} may have ${counted(jobs, 'job')} at once and has ${running}`;
    const isOver = gpus !== null && devices.kind !== 'cpu' && heldGpus + gpusOf(devices) > gpus;
    return isOver ? `${ownerInWords(owner)} may have ${gpus} at once and has ${heldGpus}` : null;
  }

  /**
   * Chooses a GPU for a job that may use any of these. A GPU that other programs have filled is taken only if there is no other.
   * A GPU that a queued job names is the last choice, so that no job waits longer because of another job's preference. Of equally
   * good GPUs, a job that shares takes the fullest, which leaves whole GPUs for others.
   */
  #best(
    job: QueuedJob,
    fitting: readonly [KnownGpu, ...KnownGpu[]],
    left: ReadonlyMap<Resource, number>,
  ): KnownGpu {
    if (fitting.length === 1) return fitting[0];
    const named = new Set(
      [...this.#queue].flatMap(({ devices }) => (devices.kind === 'gpus' ? devices.ids : [])),
    );
    const order = (gpu: KnownGpu) =>
      named.has(gpu.id)
        ? Number.POSITIVE_INFINITY
        : job.rank(gpu.id) + (this.settings.isFilled?.(gpu) ? filledRank : 0);
    const emptiness = ({ id }: KnownGpu) => (this.gpuShareOf(job) === null ? 0 : (left.get(id) ?? 0));
    const isBetter = (one: KnownGpu, other: KnownGpu) =>
      order(one) < order(other) || (order(one) === order(other) && emptiness(one) < emptiness(other));
    return fitting.reduce((best, each) => (isBetter(each, best) ? each : best));
  }
}
