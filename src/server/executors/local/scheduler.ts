import { EventEmitter } from 'node:events';
import { type Owner, ownerInWords } from '../../../access/index.js';
import { counted, ServiceError } from '../../../contract/index.js';
import { type DeviceRequest, type Grant, gpusOf } from '../index.js';
import { type Queued, Shares, TurnsOfOwners } from './fair-share.js';
import { describe, gpuGrant, type KnownGpu, type Ticket, TicketCancelled } from './tickets.js';

interface Waiting extends Queued {
  readonly request: DeviceRequest;
  /** Whether an earlier server accepted it: then it waits for a GPU that is missing. */
  readonly isAccepted: boolean;
  /** Of the GPUs that it may use, those with a lower number are preferred. */
  readonly rank: (gpu: number) => number;
  readonly grant: (grant: Grant) => void;
  readonly fail: (cause: Error) => void;
  /** A phrase with the limit and use of its owner, if it is waiting for that; otherwise null. */
  limit: string | null;
}

/** What a scheduler needs from outside. */
export interface SchedulerSettings {
  /** Whether nothing may be granted now, even if devices are free. */
  readonly isPaused?: () => boolean;
  /** GPUs that an owner may have at once; null for any number. */
  readonly maxGpusOf?: (owner: Owner) => number | null;
  /** Jobs that an owner may have at once; null for any number. */
  readonly maxJobsOf?: (owner: Owner) => number | null;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

/**
 * Grants GPUs and CPU slots, to each owner in turn (`TurnsOfOwners`). A job gets all of its GPUs or none, in order for
 * each GPU: a job that waits for GPU 0 and 1 holds neither until it gets both, and no later job gets them first. A job
 * that can use an idle GPU which no earlier job wants runs at once. CPU slots are granted strictly in order. A job whose
 * owner is at their limit of GPUs or jobs waits, and so do that owner's later jobs; meanwhile it keeps nothing from
 * others. Emits `change` after each pass over the queue: positions, and what jobs wait for, may have changed.
 */
export class Scheduler extends EventEmitter<{ change: [] }> {
  /** Lowest id first; null while the GPUs are not known: jobs that want one wait. */
  #gpus: readonly KnownGpu[] | null = null;
  /**
   * Number of jobs that hold each GPU, by its id and by its UUID. A GPU is free when nobody holds either. More than one
   * is possible only after a restart: if a job had released its GPU and was being packed when the next one got it, or if
   * the ids of GPUs have changed.
   */
  readonly #holders = new Map<number | string, number>();
  #freeSlots: number;
  /** Jobs that hold devices, by owner. */
  readonly #running = new Map<Owner, number>();
  /** In the order of the last pass. */
  #queue: Waiting[] = [];
  #arrivals = 0;
  readonly #now: () => number;
  readonly #gpuShares: Shares;
  readonly #cpuShares: Shares;
  readonly #gpuTurns: TurnsOfOwners;
  readonly #cpuTurns: TurnsOfOwners;

  /** @param gpus null if `setGpus` follows */
  constructor(
    gpus: readonly KnownGpu[] | null,
    private readonly cpuSlots: number,
    private readonly settings: SchedulerSettings = {},
  ) {
    super();
    this.#now = settings.now ?? (() => performance.now());
    this.#gpuShares = new Shares(this.#now);
    this.#cpuShares = new Shares(this.#now);
    this.#gpuTurns = new TurnsOfOwners(this.#gpuShares, this.#now);
    this.#cpuTurns = new TurnsOfOwners(this.#cpuShares, this.#now);
    // There is one listener for each job that waits.
    this.setMaxListeners(0);
    this.#freeSlots = cpuSlots;
    if (gpus) this.setGpus(gpus);
  }

  /**
   * Sets the GPUs, when they become known and whenever they change. Jobs keep what they hold, even if the ids of their GPUs
   * have changed. A job that came before the GPUs were known and wants one that does not exist is rejected. A job that was
   * accepted while its GPU existed waits until that is back.
   */
  setGpus(gpus: readonly KnownGpu[]): void {
    const isFirst = this.#gpus === null;
    this.#gpus = [...gpus].sort((a, b) => a.id - b.id);
    if (isFirst) this.#refuseImpossible();
    this.#dispatch();
  }

  /** Rejects the jobs that came before the GPUs were known and want one that does not exist. */
  #refuseImpossible(): void {
    const queue = this.#queue;
    const problemOf = ({ isAccepted, request }: Waiting) => (isAccepted ? null : this.impossible(request));
    this.#queue = queue.filter((waiting) => problemOf(waiting) === null);
    for (const waiting of queue) {
      const problem = problemOf(waiting);
      if (problem !== null) waiting.fail(new ServiceError('unknownGpu', problem));
    }
  }

  /** Why a new request can never be granted here; null if it can, or if that is not known yet. */
  impossible(request: DeviceRequest): string | null {
    if (!this.#isUnseen(request)) return null;
    if (request.kind === 'anyGpu') return 'This server has no GPU; submit the job again to run it on the CPU';
    const known = this.#gpus?.map(({ id }) => id).join(', ') || 'none';
    return `This server has no GPU ${this.#unseen(request).join(', ')}; it has: ${known}`;
  }

  /** Whether no job holds this GPU. */
  isFree({ id, uuid }: KnownGpu): boolean {
    return !this.#holders.has(id) && !this.#holders.has(uuid);
  }

  /** How many jobs wait. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Whether a job is waiting for a GPU that is currently missing. */
  get waitsForUnseen(): boolean {
    return this.#queue.some(({ request }) => this.#isUnseen(request));
  }

  /** The requested GPU ids that are currently missing; empty while the GPUs are not known. */
  #unseen(request: DeviceRequest): readonly number[] {
    const gpus = this.#gpus;
    if (gpus === null || request.kind !== 'gpus') return [];
    return request.ids.filter((each) => !gpus.some(({ id }) => id === each));
  }

  #isUnseen(request: DeviceRequest): boolean {
    return request.kind === 'anyGpu' ? this.#gpus?.length === 0 : this.#unseen(request).length > 0;
  }

  /**
   * Counts what an owner used before this server started.
   * @param gpuTime milliseconds on a GPU, times the number of GPUs
   * @param ago milliseconds since then
   */
  remember(owner: Owner, gpuTime: number, ago: number): void {
    this.#gpuShares.remember(owner, gpuTime, ago);
  }

  /** A phrase for what a request waits for. */
  #describe({ request, limit }: Waiting): string {
    if (this.settings.isPaused?.()) return 'the next start of the server, whose program was upgraded';
    const words = describe(request);
    if (limit !== null) return `${words}: ${limit}`;
    if (request.kind === 'cpu') return words;
    if (this.#gpus === null) return `${words} (nvidia-smi has not told yet which there are)`;
    if (!this.#isUnseen(request)) return words;
    if (request.kind === 'anyGpu') return `${words}; this server does not see any at the moment`;
    const unseen = this.#unseen(request);
    return unseen.length === request.ids.length
      ? `${words}, which this server does not see at the moment`
      : `${words}; this server does not see GPU ${unseen.join(', ')} at the moment`;
  }

  /**
   * Joins the queue. The devices may be granted before this returns.
   * @param isAccepted an earlier server accepted it
   * @param rank rates a GPU for a job that may use any; lower numbers are preferred
   */
  request(
    request: DeviceRequest,
    isAccepted = false,
    owner: Owner = null,
    rank: (gpu: number) => number = () => 0,
  ): Ticket {
    let cancel = () => {};
    let entry: Waiting | undefined;
    this.#arrivals += 1;
    const common = { owner, arrival: this.#arrivals, since: this.#now(), limit: null };
    const granted = new Promise<Grant>((grant, reject) => {
      entry = { ...common, request, isAccepted, rank, grant, fail: reject };
      cancel = () => {
        if (!this.#queue.some((each) => each === entry)) return;
        this.#queue = this.#queue.filter((each) => each !== entry);
        reject(new TicketCancelled());
        this.#dispatch();
      };
      this.#queue.push(entry);
    });
    this.#dispatch();
    const position = () => {
      const index = entry ? this.#queue.indexOf(entry) : -1;
      return index < 0 ? null : index + 1;
    };
    const inWords = () => (entry ? this.#describe(entry) : '');
    return {
      granted,
      position,
      get waitingFor() {
        return inWords();
      },
      cancel,
    };
  }

  /** Marks the devices that a job of an earlier server still holds as taken. */
  adopt(grant: Grant, owner: Owner = null): Ticket {
    this.#hold(grant, owner);
    return { granted: Promise.resolve(grant), position: () => null, waitingFor: '', cancel: () => {} };
  }

  #hold(grant: Grant, owner: Owner): void {
    this.#count(grant, 1);
    this.#running.set(owner, this.#runningOf(owner) + 1);
    this.#freeSlots -= grant.cpuSlots;
    this.#gpuShares.hold(owner, grant.gpus.length);
    this.#cpuShares.hold(owner, grant.cpuSlots);
  }

  #runningOf(owner: Owner): number {
    return this.#running.get(owner) ?? 0;
  }

  /** Goes through the queue again, because the limits of owners may have changed. */
  reconsider(): void {
    this.#dispatch();
  }

  /** Releases the devices of a job on behalf of the owner it was given to. */
  release(grant: Grant, owner: Owner = null): void {
    this.#count(grant, -1);
    this.#running.set(owner, this.#runningOf(owner) - 1);
    this.#freeSlots += grant.cpuSlots;
    this.#gpuShares.hold(owner, -grant.gpus.length);
    this.#cpuShares.hold(owner, -grant.cpuSlots);
    this.#dispatch();
  }

  #count({ gpus, gpuUuids }: Grant, change: 1 | -1): void {
    for (const key of [...gpus, ...gpuUuids]) {
      const holders = (this.#holders.get(key) ?? 0) + change;
      if (holders > 0) this.#holders.set(key, holders);
      else this.#holders.delete(key);
    }
  }

  /** Goes through the queue, one owner after the other, and grants what it can. */
  #dispatch(): void {
    if (this.settings.isPaused?.()) {
      this.emit('change');
      return;
    }
    const isOfCpu = ({ request }: Waiting) => request.kind === 'cpu';
    const gpu = this.#grantGpus(this.#queue.filter((each) => !isOfCpu(each)));
    const cpu = this.#grantSlots(this.#queue.filter(isOfCpu));
    const left: Waiting[] = [];
    // A single queue for both, for the positions that users see: of the next two, the one that came first.
    for (let [a, b] = [gpu[0], cpu[0]]; a ?? b; [a, b] = [gpu[0], cpu[0]]) {
      const next = b === undefined || (a !== undefined && a.arrival < b.arrival) ? gpu.shift() : cpu.shift();
      if (next) left.push(next);
    }
    this.#queue = left;
    this.emit('change');
  }

  /** Gives a waiting job its devices. */
  #give(waiting: Waiting, grant: Grant, turns: TurnsOfOwners, isFirst: boolean): void {
    this.#hold(grant, waiting.owner);
    if (isFirst) turns.serve(waiting.owner);
    waiting.grant(grant);
  }

  /** @returns the jobs that go on waiting, in their order */
  #grantGpus(queue: readonly Waiting[]): Waiting[] {
    const wantedAhead = new Set<number>();
    const atLimit = new Set<Owner>();
    const left: Waiting[] = [];
    for (const { job, isFirst } of this.#gpuTurns.order(queue)) {
      job.limit = this.#limitOf(job);
      // Otherwise an owner's small jobs would overtake a large one for ever.
      if (job.limit !== null) atLimit.add(job.owner);
      const grant = atLimit.has(job.owner) ? null : this.#tryGpus(job, wantedAhead);
      if (grant) {
        this.#give(job, grant, this.#gpuTurns, isFirst);
        continue;
      }
      // A job that waits for a missing GPU may wait for a long time, so it reserves no other GPU; nor does one that waits
      // for its owner's other jobs.
      if (job.request.kind === 'gpus' && !this.#isUnseen(job.request) && !atLimit.has(job.owner)) {
        for (const id of job.request.ids) wantedAhead.add(id);
      }
      left.push(job);
    }
    return left;
  }

  /** A phrase for the limit and use of a job's owner, if the job would exceed that limit; otherwise null. */
  #limitOf({ owner, request }: Waiting): string | null {
    const { maxGpusOf, maxJobsOf } = this.settings;
    const [gpus, jobs] = [maxGpusOf?.(owner) ?? null, maxJobsOf?.(owner) ?? null];
    const [heldGpus, running] = [this.#gpuShares.heldBy(owner), this.#runningOf(owner)];
    if (jobs !== null && running >= jobs)
      return `${ownerInWords(owner)} may have ${counted(jobs, 'job')} at once and has ${running}`;
    const isOver = gpus !== null && request.kind !== 'cpu' && heldGpus + gpusOf(request) > gpus;
    return isOver ? `${ownerInWords(owner)} may have ${gpus} at once and has ${heldGpus}` : null;
  }

  /** @returns the jobs that go on waiting, in their order */
  #grantSlots(queue: readonly Waiting[]): Waiting[] {
    const left: Waiting[] = [];
    let isBlocked = false;
    for (const { job, isFirst } of this.#cpuTurns.order(queue)) {
      job.limit = this.#limitOf(job);
      const grant: Grant | null = isBlocked || job.limit !== null ? null : this.#trySlots(job.request);
      isBlocked ||= grant === null && job.limit === null;
      if (grant) this.#give(job, grant, this.#cpuTurns, isFirst);
      else left.push(job);
    }
    return left;
  }

  #tryGpus(job: Waiting, wantedAhead: ReadonlySet<number>): Grant | null {
    const { request } = job;
    const open = (this.#gpus ?? []).filter((gpu) => this.isFree(gpu) && !wantedAhead.has(gpu.id));
    const ids = request.kind === 'gpus' ? request.ids : this.#best(job, open);
    const gpus = ids.flatMap((each) => open.find(({ id }) => id === each) ?? []);
    return gpus.length > 0 && gpus.length === ids.length ? gpuGrant(gpus) : null;
  }

  /**
   * Chooses a GPU for a job that may use any of these. One that a queued job names is the last choice, whatever its rank,
   * so that no job waits longer because of another one's preference.
   */
  #best({ rank }: Waiting, open: readonly KnownGpu[]): number[] {
    if (open.length < 2) return open.map(({ id }) => id);
    const named = new Set(this.#queue.flatMap(({ request }) => (request.kind === 'gpus' ? request.ids : [])));
    const order = ({ id }: KnownGpu) => (named.has(id) ? Number.POSITIVE_INFINITY : rank(id));
    const best = open.reduce((one, other) => (order(other) < order(one) ? other : one));
    return [best.id];
  }

  #trySlots(request: DeviceRequest): Grant | null {
    if (request.kind !== 'cpu') return null;
    // A job that asks for more slots than exist gets all of them; otherwise it would never run.
    const cpuSlots = Math.min(request.workers, this.cpuSlots);
    return this.#freeSlots >= cpuSlots ? { gpus: [], gpuUuids: [], cpuSlots } : null;
  }
}
