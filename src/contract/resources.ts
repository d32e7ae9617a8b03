import type { Operation, OperationName } from './operations.js';
import { formatBytes, parseSize, quoteName } from './text.js';

/**
 * What jobs of an app need, and whether a server has it (docs/apps.md, Resources). The server refuses what it lacks, when a
 * client asks before it uploads and again at the submission, and books the rest.
 */

/** Whether an app runs on a GPU. */
export const gpuUses = ['required', 'optional', 'none'] as const;
export type GpuUse = (typeof gpuUses)[number];

/** `resources` of an `app.json`; sizes such as `8GiB`. */
export interface DeclaredResources {
  readonly gpu?: GpuUse | undefined;
  readonly gpu_memory?: string | undefined;
  readonly memory?: string | undefined;
  readonly cpus?: number | undefined;
  readonly disk?: string | undefined;
}

/** The same, with what differs for single operations. */
export type AppResources = DeclaredResources & {
  readonly operations?: Partial<Record<OperationName, DeclaredResources>> | undefined;
};

/** Peaks of the latest successful jobs of an app, in bytes. Those of GPU memory are of any one GPU. */
export interface Observed {
  readonly operation: OperationName;
  readonly resource: 'gpu_memory' | 'memory';
  readonly jobs: number;
  readonly median: number;
  readonly maximum: number;
}

/** What one job needs. Sizes are in bytes; null means that its app does not say. */
export interface Needs {
  readonly gpu: GpuUse;
  /** Of each GPU that it gets. */
  readonly gpuMemory: number | null;
  readonly memory: number | null;
  readonly cpus: number | null;
  readonly disk: number | null;
}

/** What a job of an app without `resources` needs. */
export const unknownNeeds: Needs = { gpu: 'optional', gpuMemory: null, memory: null, cpus: null, disk: null };

/** What an app needs for an operation. A pipeline begins with inference. */
export function needsOf(resources: AppResources | undefined, { segment }: Pick<Operation, 'segment'>): Needs {
  const { operations, ...general } = resources ?? {};
  const begins = segment === 'pipeline' ? operations?.infer : undefined;
  const declared: DeclaredResources = { ...general, ...begins, ...operations?.[segment as OperationName] };
  const bytes = (text: string | undefined) => (text === undefined ? null : (parseSize(text) ?? null));
  return {
    gpu: declared.gpu ?? 'optional',
    gpuMemory: bytes(declared.gpu_memory),
    memory: bytes(declared.memory),
    cpus: declared.cpus ?? null,
    disk: bytes(declared.disk),
  };
}

/** What a server can give to one job at most. Sizes are in bytes; null means that it is not known, or not limited. */
export interface Capacity {
  /** Its GPUs and their memory; null while they are not known. */
  readonly gpus: readonly { readonly id: number; readonly memory: number | null }[] | null;
  readonly memory: number | null;
  readonly cpus: number | null;
  readonly disk: number | null;
}

/** The GPUs that a request names, or the CPU. */
export interface AskedGpus {
  /** Ids; undefined if it names none. */
  readonly gpus: readonly number[] | undefined;
  /** It asked for the CPU. */
  readonly isCpu: boolean;
}

/** Why no GPU that a job may have is enough for it; null if one is, or if that is not known. */
function gpuShortage(needs: Needs, { gpus: ids, isCpu }: AskedGpus, { gpus }: Capacity): string | null {
  if (needs.gpu === 'none') return ids ? "uses no GPU: leave out 'gpu'" : null;
  if (isCpu || gpus?.length === 0) {
    if (needs.gpu !== 'required') return null;
    return `needs a GPU, ${isCpu ? 'and the job asks for the CPU' : 'and this server has none'}`;
  }
  const { gpuMemory } = needs;
  if (gpus === null || gpuMemory === null) return null;
  const lacks = ({ memory }: { readonly memory: number | null }) => memory !== null && memory < gpuMemory;
  const needed = `needs ${formatBytes(gpuMemory)} of GPU memory`;
  if (ids) {
    const small = gpus.find((gpu) => ids.includes(gpu.id) && lacks(gpu));
    return small ? `${needed}; GPU ${small.id} has ${formatBytes(small.memory ?? 0)}` : null;
  }
  if (!gpus.every(lacks)) return null;
  const largest = Math.max(...gpus.map(({ memory }) => memory ?? 0));
  const instead = needs.gpu === 'optional' ? "; ask for the CPU with 'cpu' to run it without a GPU" : '';
  return `${needed}; the largest GPU of this server has ${formatBytes(largest)}${instead}`;
}

/** Why a server can never run a job that needs this, as a sentence; null if it can, or if that is not known. */
export function shortage(app: string, needs: Needs, asked: AskedGpus, capacity: Capacity): string | null {
  const exceeds = (need: number | null, have: number | null) => need !== null && have !== null && need > have;
  const of = (what: 'memory' | 'disk', have: string) =>
    exceeds(needs[what], capacity[what]) &&
    `needs ${formatBytes(needs[what] ?? 0)} of ${what}; ${have} ${formatBytes(capacity[what] ?? 0)}`;
  const problem =
    gpuShortage(needs, asked, capacity) ||
    of('memory', 'a job of this server may use') ||
    (exceeds(needs.cpus, capacity.cpus) && `needs ${needs.cpus} CPUs; this server has ${capacity.cpus}`) ||
    of('disk', 'a job of this server may write');
  return problem ? `The app ${quoteName(app)} ${problem}` : null;
}
