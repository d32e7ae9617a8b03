interface Waiting {
  readonly owner: string | null;
  readonly gpus: number;
  readonly enter: () => void;
}

/**
 * Holds each owner to the GPUs that they may have at once: Slurm knows one user for all of them. What waits here is not in
 * Slurm's queue yet. The jobs of one owner go in the order in which they came.
 */
export class OwnerGate {
  readonly #held = new Map<string | null, number>();
  #waiting: Waiting[] = [];

  /** @param most GPUs that an owner may have at once; null for any number */
  constructor(private readonly most: (owner: string | null) => number | null) {}

  /** What a job of this owner waits for, in words. */
  describe(owner: string | null): string {
    const most = this.most(owner);
    return `a GPU: ${owner ?? 'the admin'} may have ${most} at once and has ${this.#held.get(owner) ?? 0}`;
  }

  /**
   * Takes GPUs, now or when `entered` is called.
   * @returns a function that gives them back, or gives the place up
   */
  enter(owner: string | null, gpus: number, entered: () => void): () => void {
    let isIn = false;
    const waiting = {
      owner,
      gpus,
      enter: () => {
        isIn = true;
        this.#add(owner, gpus);
        entered();
      },
    };
    this.#waiting.push(waiting);
    this.reconsider();
    let isOut = false;
    return () => {
      if (isOut) return;
      isOut = true;
      if (isIn) this.#add(owner, -gpus);
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      this.reconsider();
    };
  }

  /** Takes GPUs that a job has already, whatever its owner may have. */
  hold(owner: string | null, gpus: number): () => void {
    this.#add(owner, gpus);
    return () => {
      this.#add(owner, -gpus);
      this.reconsider();
    };
  }

  /** Lets in who may: limits may have changed. */
  reconsider(): void {
    const passedOver = new Set<string | null>();
    for (const each of [...this.#waiting]) {
      const most = this.most(each.owner);
      const isFull = most !== null && (this.#held.get(each.owner) ?? 0) + each.gpus > most;
      // A CPU job of the same owner does not wait for GPUs.
      if (each.gpus > 0 && (isFull || passedOver.has(each.owner))) {
        passedOver.add(each.owner);
        continue;
      }
      this.#waiting = this.#waiting.filter((other) => other !== each);
      each.enter();
    }
  }

  #add(owner: string | null, gpus: number): void {
    this.#held.set(owner, (this.#held.get(owner) ?? 0) + gpus);
  }
}
