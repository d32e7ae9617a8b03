/** What a job asks for (interface.md, Submission: `gpu`). */
export type DeviceRequest =
  | { readonly kind: 'gpus'; readonly ids: readonly number[] }
  | { readonly kind: 'anyGpu' }
  | { readonly kind: 'cpu'; readonly workers: number };

/** What a job was given. */
export interface Grant {
  readonly gpus: readonly number[];
  /** CPU slots; 0 for a GPU job. */
  readonly cpuSlots: number;
}

/** A place in the queue. */
export interface Ticket {
  /** Resolves with the grant; rejects with the abort reason once cancelled. */
  readonly granted: Promise<Grant>;
  /** 1 is next; null once granted or cancelled. */
  position(): number | null;
  /** What it waits for, in words. */
  readonly waitingFor: string;
  cancel(): void;
}

interface Waiting {
  readonly request: DeviceRequest;
  readonly grant: (grant: Grant) => void;
}

function describe(request: DeviceRequest): string {
  if (request.kind === 'anyGpu') return 'a free GPU';
  if (request.kind === 'cpu') return request.workers === 1 ? 'a CPU slot' : `${request.workers} CPU slots`;
  return `GPU ${request.ids.join(', ')}`;
}

/** The job was cancelled while it waited. */
export class TicketCancelled extends Error {}

/**
 * Grants GPUs and CPU slots. GPUs go all or none, in arrival order for each GPU: a job that waits for GPU 0 and 1
 * holds neither until it gets both, and nobody behind it takes them first; a job that can use an idle GPU which
 * nobody ahead wants runs at once. CPU slots go in arrival order.
 */
export class Scheduler {
  readonly #gpus: ReadonlySet<number>;
  readonly #freeGpus: Set<number>;
  /**
   * How many jobs hold each GPU: more than one only after a restart, when a job that had given its GPU back and
   * was being packed is found beside the one that was given it next.
   */
  readonly #holders = new Map<number, number>();
  #freeSlots: number;
  #queue: Waiting[] = [];

  constructor(
    gpus: readonly number[],
    private readonly cpuSlots: number,
  ) {
    this.#gpus = new Set(gpus);
    this.#freeGpus = new Set(gpus);
    this.#freeSlots = cpuSlots;
  }

  /** Why a request can never be granted here, in words; null where it can. A recovered job may ask for what is gone. */
  impossible(request: DeviceRequest): string | null {
    if (request.kind === 'anyGpu' && this.#gpus.size === 0) return 'This server has no GPU any more';
    const gone = request.kind === 'gpus' ? request.ids.filter((id) => !this.#gpus.has(id)) : [];
    return gone.length > 0 ? `This server has no GPU ${gone.join(', ')} any more` : null;
  }

  /** Takes a place in the queue; the grant may come before this returns. */
  request(request: DeviceRequest): Ticket {
    let cancel = () => {};
    let entry: Waiting | undefined;
    const granted = new Promise<Grant>((grant, reject) => {
      entry = { request, grant };
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
    return { granted, position, waitingFor: describe(request), cancel };
  }

  /** Marks as taken what a job of an earlier server still holds. */
  adopt(grant: Grant): void {
    this.#hold(grant);
  }

  #hold(grant: Grant): void {
    for (const id of grant.gpus) {
      this.#freeGpus.delete(id);
      this.#holders.set(id, (this.#holders.get(id) ?? 0) + 1);
    }
    this.#freeSlots -= grant.cpuSlots;
  }

  /** Gives back what a job held. A GPU that an earlier server had, and this one has not, is nobody's. */
  release(grant: Grant): void {
    for (const id of grant.gpus) {
      const others = (this.#holders.get(id) ?? 1) - 1;
      this.#holders.set(id, others);
      if (others === 0 && this.#gpus.has(id)) this.#freeGpus.add(id);
    }
    this.#freeSlots += grant.cpuSlots;
    this.#dispatch();
  }

  /** Walks the queue in arrival order and grants what can be granted. */
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
      if (waiting.request.kind === 'gpus') for (const id of waiting.request.ids) wantedAhead.add(id);
      if (waiting.request.kind === 'cpu') cpuBlocked = true;
      left.push(waiting);
    }
    this.#queue = left;
  }

  #tryGrant(request: DeviceRequest, wantedAhead: Set<number>, cpuBlocked: boolean): Grant | null {
    const isOpen = (id: number) => this.#freeGpus.has(id) && !wantedAhead.has(id);
    if (request.kind === 'gpus') {
      return request.ids.every(isOpen) ? { gpus: request.ids, cpuSlots: 0 } : null;
    }
    if (request.kind === 'anyGpu') {
      const id = [...this.#freeGpus].sort((a, b) => a - b).find(isOpen);
      return id === undefined ? null : { gpus: [id], cpuSlots: 0 };
    }
    // A job that asks for more than there is gets all of it rather than never running.
    const cpuSlots = Math.min(request.workers, this.cpuSlots);
    return !cpuBlocked && this.#freeSlots >= cpuSlots ? { gpus: [], cpuSlots } : null;
  }
}
