import { errorKinds } from '../../contract/errors.js';
import type { MemoryUse } from '../../contract/system.js';
import { HttpError } from '../errors.js';
import { devices, ram, vram } from './api.js';
import type { Connection } from './connection.js';

/** One GPU of the server, and its memory where that can be told: a cluster, and some drivers, do not tell it. */
export interface Gpu extends Partial<MemoryUse> {
  readonly id: number;
  readonly name: string;
  /** Whether no job holds it; only of the GPUs of a cluster. */
  readonly free?: boolean;
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
      ...(list.devices_free?.[index] !== undefined && { free: list.devices_free[index] }),
      ...(list.devices_loaded?.[index] !== undefined && { loaded: list.devices_loaded[index] }),
      ...(list.devices_free === undefined && (await memoryOf(connection, id))),
    })),
  );
  return { gpus, ram: memory };
}
