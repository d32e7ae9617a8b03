import type { Operation, OperationName } from './operations.js';
import { formatBytes, parseSize, quoteName } from './text.js';

/**
 * What an app's jobs need, and whether a server has it (docs/apps.md, Resources). The server refuses what it cannot provide, both
 * when a client asks before uploading and at the submission, and reserves the rest.
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

/** The resources of an app, with overrides for single operations. */
export type AppResources = DeclaredResources & {
  readonly operations?: Partial<Record<OperationName, DeclaredResources>> | undefined;
};

/** Peak memory of the app's latest successful jobs, in bytes. GPU memory is the peak on any one GPU. */
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
  /** For each GPU that the job gets. */
  readonly gpuMemory: number | null;
  readonly memory: number | null;
  readonly cpus: number | null;
  readonly disk: number | null;
}

/** The needs of a job whose app has no `resources`. */
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

/** The maximum that a server can give to one job. Sizes are in bytes; null means unknown or unlimited. */
export interface Capacity {
  /** GPUs with their memory; null while they are unknown. */
  readonly gpus: readonly { readonly id: number; readonly memory: number | null }[] | null;
  readonly memory: number | null;
  readonly cpus: number | null;
  readonly disk: number | null;
}

/** The GPUs, or the CPU, that a request asks for. */
export interface AskedGpus {
  /** Ids; undefined if none are named. */
  readonly gpus: readonly number[] | undefined;
  /** Whether the CPU was requested. */
  readonly isCpu: boolean;
}

/** Why none of the GPUs that the job may use suffices; null if one does, or if this is unknown. */
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

/** Why a server can never run a job with these needs, as a sentence; null if it can, or if this is unknown. */
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
