import { EventEmitter } from 'node:events';
import type { DeviceRequest, Grant } from '../executor.js';

/** A GPU of this machine. */
export interface KnownGpu {
  readonly id: number;
  /** Stays the same when ids change; empty if it is not known. */
  readonly uuid: string;
}

/** A place in the queue. */
export interface Ticket {
  /** Resolves with the grant. Rejects when it is cancelled, or when it turns out that there is no such GPU. */
  readonly granted: Promise<Grant>;
  /** 1 is next; null once granted or cancelled. */
  position(): number | null;
  /** What it waits for, in words. */
  readonly waitingFor: string;
  cancel(): void;
}

interface Waiting {
  readonly request: DeviceRequest;
  /** Whether an earlier server accepted it: then it waits for a GPU that is missing. */
  readonly isAccepted: boolean;
  readonly grant: (grant: Grant) => void;
  readonly fail: (cause: Error) => void;
}

function describe(request: DeviceRequest): string {
  if (request.kind === 'anyGpu') return 'a free GPU';
  if (request.kind === 'cpu') return request.workers === 1 ? 'a CPU slot' : `${request.workers} CPU slots`;
  return `GPU ${request.ids.join(', ')}`;
}

const gpuGrant = (gpus: readonly KnownGpu[]): Grant => ({
  gpus: gpus.map(({ id }) => id),
  gpuUuids: gpus.map(({ uuid }) => uuid).filter((uuid) => uuid !== ''),
  cpuSlots: 0,
});

/** The job was cancelled while it waited. */
export class TicketCancelled extends Error {}

/**
 * Grants GPUs and CPU slots. A job gets all of its GPUs or none, in arrival order for each GPU: a job that waits for GPU 0
 * and 1 holds neither until it gets both, and no later job gets them first. A job that can use an idle GPU which no earlier
 * job wants runs at once. CPU slots are granted in arrival order.
 * Emits `change` after each pass over the queue: positions, and what jobs wait for, may have changed.
 */
export class Scheduler extends EventEmitter<{ change: [] }> {
  /** Lowest id first; null while the GPUs are not known: jobs that want one wait. */
  #gpus: readonly KnownGpu[] | null = null;
  /**
   * Number of jobs that hold each GPU, by its id and by its UUID. A GPU is free when nobody holds either. More than one is
   * possible only after a restart: for a job that had released its GPU and was being packed, beside the next one that got
   * the GPU; or if the ids of GPUs have changed.
   */
  readonly #holders = new Map<number | string, number>();
  #freeSlots: number;
  #queue: Waiting[] = [];

  /** @param gpus null if `setGpus` follows */
  constructor(
    gpus: readonly KnownGpu[] | null,
    private readonly cpuSlots: number,
  ) {
    super();
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
      if (problem !== null) waiting.fail(new Error(problem));
    }
  }

  /** Why a new request can never be granted here, in words; null if it can, or if that is not known yet. */
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

  /** Whether a job waits for a GPU that is missing at the moment. */
  get waitsForUnseen(): boolean {
    return this.#queue.some(({ request }) => this.#isUnseen(request));
  }

  /** The GPU ids of a request that are missing at the moment; none while the GPUs are not known. */
  #unseen(request: DeviceRequest): readonly number[] {
    const gpus = this.#gpus;
    if (gpus === null || request.kind !== 'gpus') return [];
    return request.ids.filter((each) => !gpus.some(({ id }) => id === each));
  }

  #isUnseen(request: DeviceRequest): boolean {
    return request.kind === 'anyGpu' ? this.#gpus?.length === 0 : this.#unseen(request).length > 0;
  }

  /** What a request waits for, in words. */
  #describe(request: DeviceRequest): string {
    const words = describe(request);
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
   * Takes a place in the queue. The grant may be made before this returns.
   * @param isAccepted an earlier server accepted it
   */
  request(request: DeviceRequest, isAccepted = false): Ticket {
    let cancel = () => {};
    let entry: Waiting | undefined;
    const granted = new Promise<Grant>((grant, reject) => {
      entry = { request, isAccepted, grant, fail: reject };
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
    const inWords = () => this.#describe(request);
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
  adopt(grant: Grant): Ticket {
    this.#hold(grant);
    return { granted: Promise.resolve(grant), position: () => null, waitingFor: '', cancel: () => {} };
  }

  #hold(grant: Grant): void {
    this.#count(grant, 1);
    this.#freeSlots -= grant.cpuSlots;
  }

  /** Releases the devices of a job. */
  release(grant: Grant): void {
    this.#count(grant, -1);
    this.#freeSlots += grant.cpuSlots;
    this.#dispatch();
  }

  #count({ gpus, gpuUuids }: Grant, change: 1 | -1): void {
    for (const key of [...gpus, ...gpuUuids]) {
      const holders = (this.#holders.get(key) ?? 0) + change;
      if (holders > 0) this.#holders.set(key, holders);
      else this.#holders.delete(key);
    }
  }

  /** Goes through the queue in arrival order and grants what can be granted. */
  #dispatch(): void {
    const wantedAhead = new Set<number>();
    let cpuBlocked = false;
    const left: Waiting[] = [];
    for (const waiting of this.#queue) {
      const grant = this.#tryGrant(waiting.request, wantedAhead, cpuBlocked);
      if (grant) {
        this.#hold(grant);
        waiting.grant(grant);
        continue;
      }
      // A job that waits for a missing GPU may wait for long, so it reserves no other GPU.
      if (waiting.request.kind === 'gpus' && !this.#isUnseen(waiting.request)) {
        for (const id of waiting.request.ids) wantedAhead.add(id);
      }
      if (waiting.request.kind === 'cpu') cpuBlocked = true;
      left.push(waiting);
    }
    this.#queue = left;
    this.emit('change');
  }

  #tryGrant(request: DeviceRequest, wantedAhead: Set<number>, cpuBlocked: boolean): Grant | null {
    if (request.kind !== 'cpu') {
      const open = (this.#gpus ?? []).filter((gpu) => this.isFree(gpu) && !wantedAhead.has(gpu.id));
      const ids = request.kind === 'gpus' ? request.ids : open.slice(0, 1).map(({ id }) => id);
      const gpus = ids.flatMap((each) => open.find(({ id }) => id === each) ?? []);
      return gpus.length > 0 && gpus.length === ids.length ? gpuGrant(gpus) : null;
    }
    // A job that asks for more slots than there are gets all of them: otherwise it would never run.
    const cpuSlots = Math.min(request.workers, this.cpuSlots);
    return !cpuBlocked && this.#freeSlots >= cpuSlots ? { gpus: [], gpuUuids: [], cpuSlots } : null;
  }
}
