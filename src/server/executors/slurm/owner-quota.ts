import { counted } from '../../../contract/index.js';

/** How many an owner may have at once; null for any number. */
export type OwnerLimit = (owner: string | null) => number | null;

const unlimited: OwnerLimit = () => null;

interface Waiting {
  readonly owner: string | null;
  readonly gpus: number;
  readonly give: () => void;
}

interface Held {
  readonly jobs: number;
  readonly gpus: number;
}

/**
 * Limits how many jobs and GPUs each owner has at once, since all jobs belong to the same user in Slurm. A job that waits
 * here is not in Slurm's queue yet. The GPU jobs of one owner are served in order of arrival.
 */
export class OwnerQuota {
  readonly #held = new Map<string | null, Held>();
  #waiting: Waiting[] = [];

  constructor(
    private readonly mostGpus = unlimited,
    private readonly mostJobs = unlimited,
  ) {}

  /** A phrase for what a job of this owner waits for. */
  describe(owner: string | null): string {
    const who = owner ?? 'the admin';
    const { jobs, gpus } = this.#heldBy(owner);
    const mostJobs = this.mostJobs(owner);
    return mostJobs !== null && jobs >= mostJobs
      ? `its turn: ${who} may have ${counted(mostJobs, 'job')} at once and has ${jobs}`
      : `a GPU: ${who} may have ${this.mostGpus(owner)} at once and has ${gpus}`;
  }

  /**
   * Counts a job and its GPUs as soon as the limits allow, and calls `taken` then, which may be before this returns.
   * @returns a function that returns them, or stops waiting for them
   */
  take(owner: string | null, gpus: number, taken: () => void): () => void {
    let isTaken = false;
    const waiting = {
      owner,
      gpus,
      give: () => {
        isTaken = true;
        this.#add(owner, gpus, 1);
        taken();
      },
    };
    this.#waiting.push(waiting);
    this.reconsider();
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      if (isTaken) this.#add(owner, -gpus, -1);
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      this.reconsider();
    };
  }

  /** Counts a running job and its GPUs, even beyond the limits. Returns a function that returns them. */
  hold(owner: string | null, gpus: number): () => void {
    this.#add(owner, gpus, 1);
    return () => {
      this.#add(owner, -gpus, -1);
      this.reconsider();
    };
  }

  /** Serves the jobs that may run now, such as after a change of limits. */
  reconsider(): void {
    const passedOver = new Set<string | null>();
    for (const each of [...this.#waiting]) {
      const { owner } = each;
      const [mostGpus, mostJobs] = [this.mostGpus(owner), this.mostJobs(owner)];
      const { jobs, gpus } = this.#heldBy(owner);
      const hasAllGpus = mostGpus !== null && gpus + each.gpus > mostGpus;
      const hasAllJobs = mostJobs !== null && jobs >= mostJobs;
      // CPU jobs do not wait for the GPU jobs of the same owner.
      if (hasAllJobs || (each.gpus > 0 && (hasAllGpus || passedOver.has(owner)))) {
        passedOver.add(owner);
        continue;
      }
      this.#waiting = this.#waiting.filter((other) => other !== each);
      each.give();
    }
  }

  #heldBy(owner: string | null): Held {
    return this.#held.get(owner) ?? { jobs: 0, gpus: 0 };
  }

  #add(owner: string | null, gpus: number, jobs: number): void {
    const held = this.#heldBy(owner);
    this.#held.set(owner, { jobs: held.jobs + jobs, gpus: held.gpus + gpus });
  }
}
