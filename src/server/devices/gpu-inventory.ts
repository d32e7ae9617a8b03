import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { excerpt, quoteName } from '../../contract/index.js';
import { messageOf } from '../../files/index.js';
import { SetupError } from '../setup-error.js';
import { type GpuRow, isInstalled, NoGpuAnswer, NvidiaSmi } from './nvidia-smi.js';

/** nvidia-smi works, but never reports the memory of a GPU. */
export class MemoryNotTold extends Error {
  override readonly name = 'MemoryNotTold';
}

/** A GPU, or a MIG instance of one, that jobs may be given. */
export type Gpu = Pick<GpuRow, 'id' | 'uuid' | 'name' | 'mig'>;

/** What identifies a GPU over time. Its id may change; its UUID does not, but is empty if it is not known. */
export type KnownGpu = Pick<Gpu, 'id' | 'uuid'>;

export interface VramUse {
  /** Bytes. */
  readonly used: number;
  readonly total: number;
}

const defaultTimes = {
  /** Milliseconds that a starting server waits for the first answer. */
  firstWait: 5000,
  /** Milliseconds between two calls of nvidia-smi: the first pause, and the longest. */
  firstPause: 2000,
  longestPause: 30_000,
};

/** A GPU that jobs are not given because it does not work. */
export interface FailedGpu {
  readonly id: number;
  /** What nvidia-smi says about it. */
  readonly fault: string;
}

/** A sentence about a GPU that has failed. */
export const failureInWords = ({ id, fault }: FailedGpu): string =>
  `GPU ${id} does not work (nvidia-smi says ${quoteName(fault)})`;

/** The values of `CUDA_VISIBLE_DEVICES` that mean no GPU; batch systems write `NoDevFiles`. */
const noGpu = /^(-1|NoDevFiles|none)$/i;

/** The entries of `CUDA_VISIBLE_DEVICES` that count: CUDA ignores everything from a `-1` on. */
function visibleEntries(list: string): readonly string[] {
  const entries = list.split(',').map((entry) => entry.trim());
  const end = entries.findIndex((entry) => noGpu.test(entry));
  return entries.slice(0, end < 0 ? undefined : end).filter((entry) => entry !== '');
}

/**
 * Whether one of the entries selects this GPU: by its index, or by the beginning of its UUID, which is unknown for a failed GPU.
 * An entry for a GPU that MIG divides selects all of its instances.
 */
const isVisible = ({ id, uuid, fault, mig }: GpuRow, visible: readonly string[] | null): boolean =>
  visible === null ||
  visible.some((entry) => {
    if (/^\d+$/.test(entry)) return Number(entry) === (mig?.gpu ?? id);
    return uuid === '' ? fault !== null : uuid.startsWith(entry) || mig?.gpuUuid.startsWith(entry);
  });

/** Advice for an admin who meant to use only the CPU. */
const orTheCpu = 'or set CUDA_VISIBLE_DEVICES= (empty) to run all jobs on the CPU';

/** The error for a `CUDA_VISIBLE_DEVICES` that names none of the existing GPUs. */
function misnaming(entries: readonly string[], rows: readonly GpuRow[]): string {
  const given = excerpt(entries.join(','), 200);
  const ids = rows.map(({ id }) => id).join(', ');
  return `CUDA_VISIBLE_DEVICES=${given} names no GPU of this machine, where nvidia-smi lists ${ids}: name some of these by number or UUID, ${orTheCpu}`;
}

/** Whether any GPU is new or has a different id. */
const hasNew = (gpus: readonly Gpu[], before: readonly Gpu[]): boolean =>
  gpus.some(({ id, uuid }) => !before.some((each) => each.id === id && each.uuid === uuid));

/**
 * The GPUs of this machine in nvidia-smi's order, without those that `CUDA_VISIBLE_DEVICES` hides and those that have failed. If
 * nvidia-smi or every GPU fails, the list is unknown, not empty, and nvidia-smi is called again until it answers. After that, the
 * list changes only when `look` finds a new GPU; a GPU that fails later stays listed, with its fault. Emits `known` whenever the
 * list changes.
 */
export class GpuInventory extends EventEmitter<{ known: [] }> {
  /** Null while the list is unknown. */
  current: readonly Gpu[] | null = null;
  /** GPUs that had already failed when the list was made, and are not in it. */
  failed: readonly FailedGpu[] = [];
  /** Why the list is unknown. */
  problem = 'nvidia-smi has not answered yet';
  #misnaming: string | null = null;
  /** The last answer of nvidia-smi, or a sentence that says why there was none; null before the first answer. */
  #last: readonly GpuRow[] | string | null = null;
  readonly #closing = new AbortController();
  /** Null if nothing hides a GPU. */
  readonly #visible: readonly string[] | null;

  /** @param visible `CUDA_VISIBLE_DEVICES` */
  constructor(
    visible: string | undefined,
    readonly smi = new NvidiaSmi(),
    readonly times = defaultTimes,
  ) {
    super();
    this.#visible = visible === undefined ? null : visibleEntries(visible);
  }

  get #hidesAll(): boolean {
    return this.#visible?.length === 0;
  }

  /** Why a listed GPU did not work when nvidia-smi was last called; null if it worked. */
  faultOf(gpu: KnownGpu): string | null {
    if (this.#last === null) return null;
    if (typeof this.#last === 'string') return this.#last;
    const row = this.#rowOf(gpu);
    if (row === undefined) return 'nvidia-smi does not list it any more';
    return row.fault === null ? null : `nvidia-smi says ${quoteName(row.fault)}`;
  }

  /** The memory of a listed GPU, as nvidia-smi last reported it; null if it was not reported. */
  useOf(gpu: KnownGpu): VramUse | null {
    const { used = null, total = null } = this.#rowOf(gpu) ?? {};
    return used === null || total === null ? null : { used, total };
  }

  /**
   * The row of a GPU in the last answer. When a GPU fails, nvidia-smi no longer reports its UUID, and may renumber the others.
   */
  #rowOf({ id, uuid }: KnownGpu): GpuRow | undefined {
    const rows = typeof this.#last === 'string' ? [] : (this.#last ?? []);
    const ofUuid = uuid === '' ? undefined : rows.find((row) => row.uuid === uuid);
    return ofUuid ?? rows.find((row) => row.id === id && (uuid === '' || row.uuid === ''));
  }

  /** The listed GPUs by id and name, as text; empty if there are none. */
  get inWords(): string {
    return (this.current ?? []).map(({ id, name }) => `${id} (${name})`).join(', ');
  }

  /** Why the list is empty. */
  get whyNone(): string {
    if (this.#hidesAll) return 'CUDA_VISIBLE_DEVICES names none';
    return isInstalled(this.smi.environment) ? 'nvidia-smi shows none' : 'there is no nvidia-smi on PATH';
  }

  /**
   * Asks for the list. Resolves when the list is known, when nvidia-smi has failed, or after `firstWait`.
   * @throws SetupError if `CUDA_VISIBLE_DEVICES` is set, but names no usable GPU
   */
  async start(): Promise<void> {
    if (this.#hidesAll) {
      this.current = [];
      return;
    }
    const waited = new AbortController();
    const isLate = delay(this.times.firstWait, undefined, { signal: waited.signal }).catch(() => {});
    const first = this.look();
    await Promise.race([isLate, first]);
    waited.abort();
    if (this.#misnaming !== null) throw new SetupError(this.#misnaming);
    if (this.current === null) void this.#lookAgain(first);
  }

  /**
   * The memory of these GPUs, in the given order.
   * @throws NoGpuAnswer, also if a GPU or its memory is missing from the answer; MemoryNotTold
   */
  async vram(gpus: readonly Gpu[]): Promise<readonly VramUse[]> {
    const rows = await this.smi.ask();
    return gpus.map(({ id, uuid }) => {
      // When a GPU fails, nvidia-smi may renumber the others.
      const row = rows.find((each) => (uuid === '' ? each.id === id : each.uuid === uuid));
      if (!row) throw new NoGpuAnswer(`nvidia-smi does not list GPU ${id} any more`);
      const { used, total, isMemoryTold } = row;
      if (!isMemoryTold) throw new MemoryNotTold(`nvidia-smi does not report the memory of GPU ${id}`);
      if (used === null || total === null) {
        throw new NoGpuAnswer(`nvidia-smi cannot report the memory of GPU ${id}`);
      }
      return { used, total };
    });
  }

  /** Stops calling nvidia-smi, and ends a call in progress. */
  close(): void {
    this.#closing.abort();
    this.smi.close();
  }

  async #lookAgain(first: Promise<void>): Promise<void> {
    const { firstPause, longestPause } = this.times;
    await first;
    for (let pause = firstPause; this.current === null; pause = Math.min(pause * 2, longestPause)) {
      try {
        await delay(pause, undefined, { ref: false, signal: this.#closing.signal });
      } catch {
        return;
      }
      await this.look();
    }
  }

  /** Calls nvidia-smi and records what it reports about each GPU. Never rejects. */
  async look(): Promise<void> {
    if (this.#hidesAll || this.#closing.signal.aborted) return;
    let all: readonly GpuRow[];
    try {
      all = await this.smi.ask();
      this.#last = all;
    } catch (cause) {
      this.problem = messageOf(cause);
      this.#last = this.problem;
      return;
    }
    try {
      const rows = all.filter((row) => isVisible(row, this.#visible));
      if (all.length > 0 && rows.length === 0) {
        this.#misnaming = misnaming(this.#visible ?? [], all);
        throw new NoGpuAnswer(this.#misnaming);
      }
      const failed = rows.flatMap(({ id, fault }) => (fault === null ? [] : { id, fault }));
      const gpus = rows
        .filter(({ fault }) => fault === null)
        .map(({ id, uuid, name, mig }) => ({ id, uuid, name, mig }));
      if (gpus.length === 0 && failed.length > 0) {
        const ids = failed.map(({ id }) => id).join(', ');
        throw new NoGpuAnswer(
          `nvidia-smi lists no GPU that works (GPU ${ids}: ${quoteName(failed[0]?.fault ?? '')})`,
        );
      }
      // A GPU that is briefly missing stays listed, so that new jobs for it are neither refused nor run on the CPU.
      if (this.current !== null && !hasNew(gpus, this.current)) return;
      this.current = gpus;
      this.failed = failed;
    } catch (cause) {
      this.problem = messageOf(cause);
      return;
    }
    if (!this.#closing.signal.aborted) this.emit('known');
  }
}

/** Creates the inventory of this machine's GPUs. Nothing is known about them until its `start` is called. */
export const inventory = (
  environment: NodeJS.ProcessEnv,
  onOddity?: (oddity: string) => void,
): GpuInventory =>
  new GpuInventory(
    environment.CUDA_VISIBLE_DEVICES,
    new NvidiaSmi(undefined, undefined, onOddity, environment),
  );
