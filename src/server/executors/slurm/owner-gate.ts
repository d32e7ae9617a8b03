import { counted } from '../../../contract/counted.js';

interface Waiting {
  readonly owner: string | null;
  readonly gpus: number;
  readonly enter: () => void;
}

interface Held {
  readonly jobs: number;
  readonly gpus: number;
}
const nothing: Held = { jobs: 0, gpus: 0 };

/**
 * Holds each owner to the jobs and GPUs that they may have at once: Slurm knows one user for all of them. What waits here is not in
 * Slurm's queue yet. The jobs of one owner go in the order in which they came.
 */
export class OwnerGate {
  readonly #held = new Map<string | null, Held>();
  #waiting: Waiting[] = [];

  /** @param most GPUs, and then jobs, that an owner may have at once; null for any number */
  constructor(
    private readonly most: (owner: string | null) => number | null,
    private readonly mostJobs: (owner: string | null) => number | null = () => null,
  ) {}

  /** What a job of this owner waits for, in words. */
  describe(owner: string | null): string {
    const who = owner ?? 'the admin';
    const { jobs, gpus } = this.#of(owner);
    const mostJobs = this.mostJobs(owner);
    return mostJobs !== null && jobs >= mostJobs
      ? `its turn: ${who} may have ${counted(mostJobs, 'job')} at once and has ${jobs}`
      : `a GPU: ${who} may have ${this.most(owner)} at once and has ${gpus}`;
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
        this.#add(owner, gpus, 1);
        entered();
      },
    };
    this.#waiting.push(waiting);
    this.reconsider();
    let isOut = false;
    return () => {
      if (isOut) return;
      isOut = true;
      if (isIn) this.#add(owner, -gpus, -1);
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      this.reconsider();
    };
  }

  /** Takes GPUs that a job has already, whatever its owner may have. */
  hold(owner: string | null, gpus: number): () => void {
    this.#add(owner, gpus, 1);
    return () => {
      this.#add(owner, -gpus, -1);
      this.reconsider();
    };
  }

  /** Lets in who may: limits may have changed. */
  reconsider(): void {
    const passedOver = new Set<string | null>();
    for (const each of [...this.#waiting]) {
      const most = this.most(each.owner);
      const mostJobs = this.mostJobs(each.owner);
      const { jobs, gpus } = this.#of(each.owner);
      const isFull = most !== null && gpus + each.gpus > most;
      const hasAllJobs = mostJobs !== null && jobs >= mostJobs;
      // A CPU job of the same owner does not wait for GPUs.
      if (hasAllJobs || (each.gpus > 0 && (isFull || passedOver.has(each.owner)))) {
        passedOver.add(each.owner);
        continue;
      }
      this.#waiting = this.#waiting.filter((other) => other !== each);
      each.enter();
    }
  }

  #of(owner: string | null): Held {
    return this.#held.get(owner) ?? nothing;
  }

  #add(owner: string | null, gpus: number, jobs: number): void {
    const held = this.#of(owner);
    this.#held.set(owner, { jobs: held.jobs + jobs, gpus: held.gpus + gpus });
  }
}
