import { EventEmitter } from 'node:events';
import { type Owner, ownerInWords } from '../../../access/index.js';
import { counted, ServiceError } from '../../../contract/index.js';
import { type DeviceRequest, type Grant, gpusOf } from '../index.js';
import { type Queued, Shares, TurnsOfOwners } from './fair-share.js';

/** A GPU of this machine. */
export interface KnownGpu {
  readonly id: number;
  /** Stays the same if ids change; empty if it is not known. */
  readonly uuid: string;
}

/** A place in the queue. */
export interface Ticket {
  /** Its number in the order of arrival; null for a job that an earlier server started. */
  readonly arrival: number | null;
  /** Resolves with the grant. Rejects if the ticket is cancelled, or if there turns out to be no such GPU. */
  readonly granted: Promise<Grant>;
  /** 1 is next; null once granted or cancelled. */
  position(): number | null;
  /** A phrase for what it waits for. */
  waitingFor(): string;
  cancel(): void;
}

/** The job was cancelled while it was waiting. */
export class TicketCancelled extends Error {}

/** A phrase for what a request asks for. */
function describe(request: DeviceRequest): string {
  if (request.kind === 'anyGpu') return 'a free GPU';
  if (request.kind === 'cpu') return request.workers === 1 ? 'a CPU slot' : `${request.workers} CPU slots`;
  return `GPU ${request.ids.join(', ')}`;
}

interface Waiting extends Queued {
  readonly request: DeviceRequest;
  /** Whether an earlier server accepted it: then it waits for a GPU that is missing. */
  readonly isAccepted: boolean;
  /** Of the GPUs that it may use, those with a lower number are preferred. */
  readonly rank: (gpu: number) => number;
  readonly grant: (grant: Grant) => void;
  readonly fail: (cause: Error) => void;
  /** Its place among all that wait, as of the last time that places were counted. */
  position: number;
}

/** Added to the rank of a GPU that other programs have filled: more than any rank. */
const filledRank = 1000;

/** What a scheduler needs from outside. */
export interface SchedulerSettings {
  /** What all jobs wait for now, even if devices are free, as a phrase; null if nothing holds them back. */
  readonly pause?: () => string | null;
  /** Why a GPU does not work at the moment; null if it does. */
  readonly faultOf?: (gpu: KnownGpu) => string | null;
  /** Whether an admin has taken a GPU out. */
  readonly isDrained?: (gpu: KnownGpu) => boolean;
  /** Whether other programs have filled a GPU: it is then given last to jobs that may have any. */
  readonly isFilled?: (gpu: KnownGpu) => boolean;
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
 * others. Emits `change` when positions, or what jobs wait for, may have changed, but not more often than once in as many
 * milliseconds as jobs wait: waking thousands of jobs at each arrival would be too slow.
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
  /** In the order of arrival. */
  readonly #queue = new Set<Waiting>();
  /** Whether the places in the queue were counted since its last change. */
  #areCounted = false;
  /** What all jobs wait for, as of the last pass over the queue. */
  #pause: string | null = null;
  #lastChange = 0;
  #changeTimer: NodeJS.Timeout | undefined;
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
    for (const waiting of this.#queue) {
      const problem = isFirst && !waiting.isAccepted ? this.impossible(waiting.request) : null;
      if (problem === null) continue;
      this.#queue.delete(waiting);
      waiting.fail(new ServiceError('unknownGpu', problem));
    }
    this.reconsider();
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
    return this.#queue.size;
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

  /** Whether a GPU is given to no job: it does not work, or an admin has drained it. */
  #isOut(gpu: KnownGpu): boolean {
    return (this.settings.faultOf?.(gpu) ?? null) !== null || (this.settings.isDrained?.(gpu) ?? false);
  }

  /** The GPUs of a request that are out of use at the moment; for any GPU, all of them if no other is left. */
  #out(request: DeviceRequest): readonly KnownGpu[] {
    const gpus = this.#gpus ?? [];
    const out = gpus.filter((gpu) => this.#isOut(gpu));
    if (request.kind === 'gpus') return out.filter(({ id }) => request.ids.includes(id));
    return request.kind === 'anyGpu' && out.length === gpus.length ? out : [];
  }

  /** Why a request waits for GPUs that are out of use, as the end of a phrase; empty if it waits for none. */
  #whyOut(request: DeviceRequest): string {
    const out = this.#out(request);
    const drained = out.filter((gpu) => this.settings.isDrained?.(gpu));
    const broken = out.filter((gpu) => !drained.includes(gpu));
    const list = (gpus: readonly KnownGpu[]) => `GPU ${gpus.map(({ id }) => id).join(', ')}`;
    return [
      broken.length > 0 && `; ${list(broken)} does not work at the moment`,
      drained.length > 0 && `; an admin has drained ${list(drained)}`,
    ]
      .filter(Boolean)
      .join('');
  }

  /** A phrase for what a request waits for. */
  #describe(waiting: Waiting): string {
    if (this.#pause !== null) return this.#pause;
    const { request } = waiting;
    const words = describe(request);
    const limit = this.#limitOf(waiting);
    if (limit !== null) return `${words}: ${limit}`;
    if (request.kind === 'cpu') return words;
    const why = this.#whyOut(request);
    if (why !== '') return words + why;
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
   * @param former its arrival, if it was granted devices before and could not start
   */
  request(
    request: DeviceRequest,
    isAccepted = false,
    owner: Owner = null,
    rank: (gpu: number) => number = () => 0,
    former: number | null = null,
  ): Ticket {
    let cancel = () => {};
    let entry: Waiting | undefined;
    if (former === null) this.#arrivals += 1;
    const arrival = former ?? this.#arrivals;
    const common = { owner, arrival, since: this.#now(), position: 0 };
    const granted = new Promise<Grant>((grant, reject) => {
      entry = { ...common, request, isAccepted, rank, grant, fail: reject };
      cancel = () => {
        if (!entry || !this.#queue.delete(entry)) return;
        reject(new TicketCancelled());
        this.reconsider();
      };
      this.#queue.add(entry);
    });
    this.reconsider();
    const position = () => {
      if (!entry || !this.#queue.has(entry)) return null;
      this.#count();
      return entry.position;
    };
    const waitingFor = () => (entry ? this.#describe(entry) : '');
    return { arrival, granted, position, waitingFor, cancel };
  }

  /** Marks the devices that a job of an earlier server still holds as taken. */
  adopt(grant: Grant, owner: Owner = null): Ticket {
    this.#hold(grant, owner);
    const granted = Promise.resolve(grant);
    return { arrival: null, granted, position: () => null, waitingFor: () => '', cancel: () => {} };
  }

  #hold(grant: Grant, owner: Owner): void {
    this.#countHolders(grant, 1);
    this.#running.set(owner, this.#runningOf(owner) + 1);
    this.#freeSlots -= grant.cpuSlots;
    this.#gpuShares.hold(owner, grant.gpus.length);
    this.#cpuShares.hold(owner, grant.cpuSlots);
  }

  #runningOf(owner: Owner): number {
    return this.#running.get(owner) ?? 0;
  }

  /** Releases the devices of a job on behalf of the owner it was given to. */
  release(grant: Grant, owner: Owner = null): void {
    this.#countHolders(grant, -1);
    this.#running.set(owner, this.#runningOf(owner) - 1);
    this.#freeSlots += grant.cpuSlots;
    this.#gpuShares.hold(owner, -grant.gpus.length);
    this.#cpuShares.hold(owner, -grant.cpuSlots);
    this.reconsider();
  }

  #countHolders({ gpus, gpuUuids }: Grant, change: 1 | -1): void {
    for (const key of [...gpus, ...gpuUuids]) {
      const holders = (this.#holders.get(key) ?? 0) + change;
      if (holders > 0) this.#holders.set(key, holders);
      else this.#holders.delete(key);
    }
  }

  /**
   * Goes through the queue, one owner after the other, and grants what it can. Called from outside when the limits of
   * owners may have changed.
   */
  reconsider(): void {
    this.#areCounted = false;
    this.#pause = this.settings.pause?.() ?? null;
    if (this.#pause === null && this.#queue.size > 0) {
      // A queue may have thousands of jobs, and mostly nothing is free.
      if (this.#openGpus().length > 0) this.#grantGpus();
      if (this.#freeSlots > 0) this.#grantSlots();
    }
    this.#tellChange();
  }

  /** Tells those that wait that something has changed, soon. */
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

  /** The jobs that wait for GPUs, or for CPU slots. */
  #waitingFor(kind: 'gpu' | 'cpu'): Waiting[] {
    return [...this.#queue].filter(({ request }) => (request.kind === 'cpu') === (kind === 'cpu'));
  }

  /** Counts the places in the queue. There is one for GPUs and CPU slots: of the next two, the one that came first. */
  #count(): void {
    if (this.#areCounted) return;
    this.#areCounted = true;
    const gpu = [...this.#gpuTurns.order(this.#waitingFor('gpu'))];
    const cpu = [...this.#cpuTurns.order(this.#waitingFor('cpu'))];
    let [a, b] = [0, 0];
    for (let position = 1; a < gpu.length || b < cpu.length; position += 1) {
      const [ofGpu, ofCpu] = [gpu[a]?.job, cpu[b]?.job];
      const isGpu = !ofCpu || (ofGpu !== undefined && ofGpu.arrival < ofCpu.arrival);
      if (isGpu) a += 1;
      else b += 1;
      const next = isGpu ? ofGpu : ofCpu;
      if (next) next.position = position;
    }
  }

  /** Gives a waiting job its devices. */
  #give(waiting: Waiting, grant: Grant, turns: TurnsOfOwners, isFirst: boolean): void {
    this.#queue.delete(waiting);
    this.#hold(grant, waiting.owner);
    if (isFirst) turns.serve(waiting.owner);
    waiting.grant(grant);
  }

  /** GPUs that no job has and that are in use. */
  #openGpus(): KnownGpu[] {
    return (this.#gpus ?? []).filter((gpu) => this.isFree(gpu) && !this.#isOut(gpu));
  }

  #grantGpus(): void {
    const wantedAhead = new Set<number>();
    const atLimit = new Set<Owner>();
    for (const { job, isFirst } of this.#gpuTurns.order(this.#waitingFor('gpu'))) {
      const open = this.#openGpus().filter(({ id }) => !wantedAhead.has(id));
      if (open.length === 0) return;
      // Otherwise an owner's small jobs would overtake a large one for ever.
      if (atLimit.has(job.owner) || this.#limitOf(job) !== null) {
        atLimit.add(job.owner);
        continue;
      }
      const { request } = job;
      const grant = this.#tryGpus(job, open);
      if (grant) this.#give(job, grant, this.#gpuTurns, isFirst);
      // A job that waits for a missing GPU may wait for a long time, so it reserves no other GPU.
      else if (request.kind === 'gpus' && !this.#isUnseen(request) && this.#out(request).length === 0) {
        for (const id of request.ids) wantedAhead.add(id);
      }
    }
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

  #grantSlots(): void {
    for (const { job, isFirst } of this.#cpuTurns.order(this.#waitingFor('cpu'))) {
      if (this.#limitOf(job) !== null) continue;
      const grant = this.#trySlots(job.request);
      if (grant === null) return;
      this.#give(job, grant, this.#cpuTurns, isFirst);
    }
  }

  #tryGpus(job: Waiting, open: readonly KnownGpu[]): Grant | null {
    const { request } = job;
    const ids = request.kind === 'gpus' ? request.ids : this.#best(job, open);
    const gpus = ids.flatMap((each) => open.find(({ id }) => id === each) ?? []);
    if (gpus.length === 0 || gpus.length < ids.length) return null;
    const gpuUuids = gpus.map(({ uuid }) => uuid).filter((uuid) => uuid !== '');
    return { gpus: ids, gpuUuids, cpuSlots: 0 };
  }

  /**
   * Chooses a GPU for a job that may use any of these. One that other programs have filled is taken only if there is no
   * other, and one that a queued job names is the last choice, so that no job waits longer because of another one's
   * preference.
   */
  #best({ rank }: Waiting, open: readonly KnownGpu[]): number[] {
    if (open.length < 2) return open.map(({ id }) => id);
    const named = new Set(
      [...this.#queue].flatMap(({ request }) => (request.kind === 'gpus' ? request.ids : [])),
    );
    const order = (gpu: KnownGpu) =>
      named.has(gpu.id)
        ? Number.POSITIVE_INFINITY
        : rank(gpu.id) + (this.settings.isFilled?.(gpu) ? filledRank : 0);
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
