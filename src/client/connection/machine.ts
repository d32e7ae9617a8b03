import { errorKinds } from '../../contract/errors.js';
import type { DeviceJob, DeviceList, MemoryUse } from '../../contract/system.js';
import { HttpError } from '../errors.js';
import { devices, ram, vram } from './api.js';
import type { Connection } from './connection.js';

/** One GPU of the server, and its memory where that can be told: a cluster, and some drivers, do not tell it. */
export interface Gpu extends Partial<MemoryUse> {
  readonly id: number;
  readonly name: string;
  /** Whether no job holds it. An older server tells that of the GPUs of a cluster alone. */
  readonly free?: boolean;
  /** The job that holds it, if whoever asks may know it. */
  readonly job?: DeviceJob;
  /** Apps that are loaded on it; only where one is. */
  readonly loaded?: readonly string[];
}

/** The memory of a GPU; nothing where the server answers that it cannot be told. */
async function memoryOf(connection: Connection, id: number): Promise<Partial<MemoryUse>> {
  try {
    return await vram(connection, [id]);
  } catch (cause) {
    if (cause instanceof HttpError && cause.status === errorKinds.memoryUnknown.status) return {};
    throw cause;
  }
}

/** Whether a job holds a GPU, and which, as far as the server tells. */
function holdOf({ devices_free, devices_jobs }: DeviceList, index: number): Pick<Gpu, 'free' | 'job'> {
  const free = devices_free?.[index];
  if (free !== undefined) return { free };
  const job = devices_jobs?.[index];
  if (job === undefined) return {};
  return { free: job === null, ...(job?.job_id !== undefined && { job }) };
}

/** GPUs and memory of the server. */
export interface Machine {
  readonly gpus: readonly Gpu[];
  readonly ram: MemoryUse;
}

/** Asks for the GPUs, the memory of each, and the RAM (spec.md, Health and system). */
export async function readMachine(connection: Connection): Promise<Machine> {
  const [list, memory] = await Promise.all([devices(connection), ram(connection)]);
  const gpus = await Promise.all(
    list.devices_index.map(async (id, index) => ({
      id,
      name: list.devices_name[index] ?? '',
      ...holdOf(list, index),
      ...(list.devices_loaded?.[index] !== undefined && { loaded: list.devices_loaded[index] }),
      ...(list.devices_free === undefined && (await memoryOf(connection, id))),
    })),
  );
  return { gpus, ram: memory };
}
