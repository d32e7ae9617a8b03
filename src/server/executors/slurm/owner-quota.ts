import { counted } from '../../../contract/index.js';
import type { OwnerLimits } from '../index.js';

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

  constructor(private readonly limits: OwnerLimits) {}

  /** A phrase for what a job of this owner waits for. */
  describe(owner: string | null): string {
    const who = owner ?? 'the admin';
    const { jobs, gpus } = this.#heldBy(owner);
    const maxJobs = this.limits.maxJobs(owner);
    return maxJobs !== null && jobs >= maxJobs
      ? `its turn: ${who} may have ${counted(maxJobs, 'job')} at once and has ${jobs}`
      : `a GPU: ${who} may have ${this.limits.maxGpus(owner)} at once and has ${gpus}`;
  }

  /**
   * Counts a job and its GPUs as soon as the limits allow, and calls `taken` then, which may be before this returns.
   * @returns a function that gives them back, or stops waiting for them
   */
  take(owner: string | null, gpus: number, taken: () => void): () => void {
    let giveBack = () => {};
    const give = () => {
      giveBack = this.hold(owner, gpus);
      taken();
    };
    const waiting = { owner, gpus, give };
    this.#waiting.push(waiting);
    this.reconsider();
    return () => {
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
      giveBack();
    };
  }

  /** Counts a running job and its GPUs, even beyond the limits. @returns a function that gives them back */
  hold(owner: string | null, gpus: number): () => void {
    this.#add(owner, gpus, 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#add(owner, -gpus, -1);
      this.reconsider();
    };
  }

  /** Serves the jobs that may run now, such as after a change of limits. */
  reconsider(): void {
    const passedOver = new Set<string | null>();
    for (const each of [...this.#waiting]) {
      const { owner } = each;
      const [maxGpus, maxJobs] = [this.limits.maxGpus(owner), this.limits.maxJobs(owner)];
      const { jobs, gpus } = this.#heldBy(owner);
      const isOverGpus = maxGpus !== null && gpus + each.gpus > maxGpus;
      const isOverJobs = maxJobs !== null && jobs >= maxJobs;
      // CPU jobs do not wait for the GPU jobs of the same owner.
      if (isOverJobs || (each.gpus > 0 && (isOverGpus || passedOver.has(owner)))) {
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
