import { setTimeout as delay } from 'node:timers/promises';
import { orElse } from '../../../files/index.js';
import { jobsOf } from '../../../runner/index.js';
import type { GpuInventory } from '../../devices/index.js';

/**
 * Milliseconds between two calls of nvidia-smi: `firstPause` when a job has just begun, then multiplied by `growth` after each
 * call, up to `longestPause`.
 */
const firstPause = 250;
const longestPause = 4000;
const growth = 1.2;
/** Milliseconds before the next call after nvidia-smi has failed. */
const pauseAfterFailure = 60_000;

/**
 * Samples the peak GPU memory of jobs with nvidia-smi: for each job, the maximum number of bytes that its processes used together
 * on any one GPU. nvidia-smi is not called while no job has GPUs.
 */
export class GpuPeaks {
  readonly #jobs = new Map<string, { readonly markers: () => readonly string[]; peak: number | null }>();
  #pause = firstPause;
  #isSampling = false;

  constructor(private readonly smi: GpuInventory['smi']) {}

  /**
   * Begins to sample a job.
   * @param markers ids that its processes are marked with: its own, and that of its worker
   */
  begin(job: string, markers: () => readonly string[]): void {
    this.#jobs.set(job, { markers, peak: null });
    this.#pause = firstPause;
    if (!this.#isSampling) void this.#sample();
  }

  /**
   * Stops sampling a job.
   * @returns its peak in bytes; null if nvidia-smi did not report it
   */
  end(job: string): number | null {
    const peak = this.#jobs.get(job)?.peak ?? null;
    this.#jobs.delete(job);
    return peak;
  }

  close(): void {
    this.#jobs.clear();
  }

  async #sample(): Promise<void> {
    this.#isSampling = true;
    while (this.#jobs.size > 0) {
      const processes = await this.smi.processes().catch(() => {
        this.#pause = pauseAfterFailure;
        return [];
      });
      // A process that has ended meanwhile, or belongs to another user, counts for no job.
      const marked = processes.map((each) => ({ ...each, ids: orElse(() => jobsOf(each.pid), []) }));
      for (const job of this.#jobs.values()) {
        const markers = job.markers();
        const byGpu = new Map<string, number>();
        for (const { gpu, used, ids } of marked)
          if (ids.some((id) => markers.includes(id))) byGpu.set(gpu, (byGpu.get(gpu) ?? 0) + used);
        if (byGpu.size > 0) job.peak = Math.max(job.peak ?? 0, ...byGpu.values());
      }
      await delay(this.#pause, undefined, { ref: false });
      this.#pause = Math.min(this.#pause * growth, longestPause);
    }
    this.#isSampling = false;
  }
}
