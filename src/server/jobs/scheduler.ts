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
  /** Resolves with the grant; rejects once cancelled, or when it turns out that there is no such GPU. */
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
  readonly fail: (cause: Error) => void;
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
  /** Null while nobody knows which there are: jobs that want one wait. */
  #gpus: ReadonlySet<number> | null;
  #freeGpus: Set<number>;
  /**
   * How many jobs hold each GPU: more than one only after a restart, when a job that had given its GPU back and
   * was being packed is found beside the one that was given it next.
   */
  readonly #holders = new Map<number, number>();
  #freeSlots: number;
  #queue: Waiting[] = [];

  /** @param gpus ids; null where `setGpus` will tell them */
  constructor(
    gpus: readonly number[] | null,
    private readonly cpuSlots: number,
  ) {
    this.#gpus = gpus && new Set(gpus);
    this.#freeGpus = new Set(gpus ?? []);
    this.#freeSlots = cpuSlots;
  }

  /**
   * Tells which GPUs there are, once that is known. What a job of an earlier server holds stays held; a waiting job
   * that wants a GPU which there is not is ended; the others go on.
   */
  setGpus(gpus: readonly number[]): void {
    this.#gpus = new Set(gpus);
    this.#freeGpus = new Set(gpus.filter((id) => (this.#holders.get(id) ?? 0) === 0));
    const queue = this.#queue;
    this.#queue = queue.filter(({ request }) => this.impossible(request) === null);
    for (const { request, fail } of queue) {
      const problem = this.impossible(request);
      if (problem !== null) fail(new Error(problem));
    }
    this.#dispatch();
  }

  /**
   * Why a request can never be granted here, in words; null where it can, or where that is not known yet. A recovered
   * job may ask for what is gone, and one that was accepted before the GPUs were known for what never was.
   */
  impossible(request: DeviceRequest): string | null {
    const gpus = this.#gpus;
    if (gpus === null) return null;
    if (request.kind === 'anyGpu' && gpus.size === 0) {
      return 'This server has no GPU; submit the job again to run it on the CPU';
    }
    const gone = request.kind === 'gpus' ? request.ids.filter((id) => !gpus.has(id)) : [];
    const known = [...gpus].join(', ') || 'none';
    return gone.length > 0 ? `This server has no GPU ${gone.join(', ')}; it has: ${known}` : null;
  }

  /** What a request waits for, in words. */
  #describe(request: DeviceRequest): string {
    const isUnknown = this.#gpus === null && request.kind !== 'cpu';
    return describe(request) + (isUnknown ? ' (nvidia-smi has not told yet which there are)' : '');
  }

  /** Takes a place in the queue; the grant may come before this returns. */
  request(request: DeviceRequest): Ticket {
    let cancel = () => {};
    let entry: Waiting | undefined;
    const granted = new Promise<Grant>((grant, reject) => {
      entry = { request, grant, fail: reject };
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
      if (others === 0 && this.#gpus?.has(id)) this.#freeGpus.add(id);
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
