import { EventEmitter } from 'node:events';
import { statfsSync } from 'node:fs';
import { formatBytes } from '../../../contract/index.js';
import { lacksInodes } from '../../../files/index.js';
import type { Gpu, GpuInventory } from '../../devices/index.js';
import type { ServerEvents } from '../../events.js';
import type { Sandbox } from '../../sandbox/index.js';
import type { Grant } from '../index.js';

/** Milliseconds between two checks of the machine. */
const interval = 60_000;
/** Milliseconds between two checks while there is a fault; GPUs are checked less often. */
const faultInterval = 5000;
const gpuFaultInterval = 30_000;
/** Bytes that must be free on the disk for a job to start, but at most `maxNeededShare` of the disk. */
const neededBytes = 64 << 20;
const maxNeededShare = 1 / 32;
/** A GPU that no job has counts as filled by other programs if at least this share of its memory is used. */
const filledShare = 1 / 2;

export interface MachineWatchSettings {
  readonly dataDirectory: string;
  readonly gpus: GpuInventory;
  /** Null if jobs run without a sandbox. */
  readonly sandbox: Pick<Sandbox, 'problem'> | null;
  /** Whether no job and no loaded app of this server uses a GPU. */
  readonly isIdle: (gpu: Gpu) => boolean;
  readonly events: ServerEvents;
}

/**
 * Watches for faults of this machine that would make one job after another fail: a sandbox that no longer starts, a lost GPU, a
 * full disk. The jobs that a fault affects wait. Checks every minute, after each job that failed, and more often while there is a
 * fault. Emits `change` when a fault appears or is gone.
 */
export class MachineWatch extends EventEmitter<{ change: [] }> {
  /** A sentence for each fault, by what is at fault. */
  readonly #faults = new Map<string, string>();
  /** Ids of GPUs that other programs have filled. */
  readonly #filled = new Set<number>();
  /** Maximum number of GPUs that have been listed: if fewer are listed, some are lost. */
  #mostGpus = 0;
  #lastLook = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(private readonly settings: MachineWatchSettings) {
    super();
  }

  /** Starts watching. */
  start(): void {
    this.#noteGpus();
    this.settings.gpus.on('known', () => this.#noteGpus());
    this.#arm();
  }

  /** The current faults as sentences. Checks the disk first. */
  get faults(): readonly string[] {
    this.#checkDisk();
    return [...this.#faults.values()];
  }

  /** What all jobs are waiting for, as a phrase; null if they can start. Checks the disk first. */
  pause(): string | null {
    this.#checkDisk();
    if (this.#faults.has('sandbox')) return "the server's sandbox, which does not start at the moment";
    return this.#faults.has('disk') ? "room on the server's disk" : null;
  }

  /** Whether other programs have filled a GPU. */
  isFilled({ id }: Pick<Gpu, 'id'>): boolean {
    return this.#filled.has(id);
  }

  /**
   * Tries to start the sandbox without a job, because the program of a job did not start in it.
   * @returns whether the sandbox does not start; if so, jobs wait until it does
   */
  async isSandboxBroken(): Promise<boolean> {
    const problem = (await this.settings.sandbox?.problem()) ?? null;
    const fault = problem && `The sandbox does not start any more (${problem}): jobs wait`;
    this.#set('sandbox', fault);
    return fault !== null;
  }

  /**
   * Checks the GPUs and the disk, because a job failed on these GPUs.
   * @returns what is wrong with one of them or with the disk, as a sentence; null if no fault is known
   */
  async faultOf({ gpus: ids, gpuUuids }: Pick<Grant, 'gpus' | 'gpuUuids'>): Promise<string | null> {
    if (ids.length > 0) await this.#lookAtGpus();
    this.#checkDisk();
    const isLost = gpuUuids.some((lost) => !this.settings.gpus.current?.some(({ uuid }) => uuid === lost));
    const culprits = [...(isLost ? ['GPUs'] : ids.map((id) => `GPU ${id}`)), 'disk'];
    return culprits.map((what) => this.#faults.get(what)).find((fault) => fault !== undefined) ?? null;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    if (this.#isClosed) return;
    const pause = this.#faults.size > 0 ? faultInterval : interval;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#check(), pause).unref();
  }

  async #check(): Promise<void> {
    const isDue = performance.now() - this.#lastLook >= (this.#faults.size > 0 ? gpuFaultInterval : 0);
    if (isDue) await this.#lookAtGpus();
    if (this.#faults.has('sandbox')) await this.isSandboxBroken();
    this.#checkDisk();
    this.#arm();
  }

  #checkDisk(): void {
    this.#set('disk', this.#diskFault());
  }

  #diskFault(): string | null {
    const { dataDirectory } = this.settings;
    try {
      const { bavail, bsize, blocks } = statfsSync(dataDirectory);
      const free = bavail * bsize;
      if (free < Math.min(neededBytes, blocks * bsize * maxNeededShare))
        return `The disk of the data directory is full (${formatBytes(free)} are free): jobs wait`;
      return lacksInodes(dataDirectory)
        ? 'The disk of the data directory has no inodes (files) left: jobs wait'
        : null;
    } catch {
      // The state of the disk is not known at the moment.
      return null;
    }
  }

  async #lookAtGpus(): Promise<void> {
    const { gpus, isIdle } = this.settings;
    this.#lastLook = performance.now();
    const idle = (gpus.current ?? []).filter(isIdle);
    await gpus.look();
    this.#noteGpus(idle);
  }

  /** @param idle GPUs that were idle before nvidia-smi was called */
  #noteGpus(idle = this.settings.gpus.current ?? []): void {
    const { gpus, isIdle } = this.settings;
    const listed = (gpus.current ?? []).map(({ id }) => `GPU ${id}`);
    for (const what of [...this.#faults.keys()])
      if (what.startsWith('GPU ') && !listed.includes(what)) this.#set(what, null);
    for (const gpu of gpus.current ?? []) {
      const fault = gpus.faultOf(gpu);
      this.#set(`GPU ${gpu.id}`, fault && `GPU ${gpu.id} does not work (${fault}): it gets no jobs`);
    }
    // When a GPU is lost, another may get its number. All listed GPUs then work, and only their count shows the loss.
    this.#mostGpus = Math.max(this.#mostGpus, listed.length);
    const isFewer = listed.length < this.#mostGpus;
    const fewer = `nvidia-smi lists ${listed.length} of ${this.#mostGpus} GPUs: the others are lost, and get no jobs`;
    this.#set('GPUs', isFewer ? fewer : null);
    for (const gpu of idle.filter(isIdle)) {
      const use = gpus.useOf(gpu);
      if (use && use.used >= use.total * filledShare) this.#filled.add(gpu.id);
      else this.#filled.delete(gpu.id);
    }
  }

  #set(what: string, fault: string | null): void {
    if (this.#faults.has(what) === (fault !== null)) return;
    if (fault === null) this.#faults.delete(what);
    else this.#faults.set(what, fault);
    this.settings.events.announce('fault', { what, fault });
    this.#arm();
    this.emit('change');
  }
}
