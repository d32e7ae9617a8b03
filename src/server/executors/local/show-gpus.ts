import { ServiceError } from '../../../contract/errors.js';
import { type Gpu, type GpuInventory, MemoryNotTold, NoGpuAnswer } from '../../devices/index.js';
import { type DeviceMemory, refuseUnknown } from '../index.js';

/** The GPUs of this machine. @throws ServiceError `gpusUnknown` */
export function knownGpus({ current, problem }: GpuInventory): readonly Gpu[] {
  if (current) return current;
  throw new ServiceError('gpusUnknown', `The GPUs of this server are not known: ${problem}; try again later`);
}

/** The memory of these GPUs together. @throws ServiceError `unknownGpu`, `gpusUnknown` or `memoryUnknown` */
export async function memoryOf(inventory: GpuInventory, ids: readonly number[]): Promise<DeviceMemory> {
  const gpus = knownGpus(inventory);
  refuseUnknown(ids, gpus);
  try {
    const uses = await inventory.vram(gpus.filter(({ id }) => ids.includes(id)));
    return uses.reduce((sum, { used, total }) => ({ used: sum.used + used, total: sum.total + total }), {
      used: 0,
      total: 0,
    });
  } catch (cause) {
    if (cause instanceof MemoryNotTold) throw new ServiceError('memoryUnknown', cause.message, { cause });
    if (!(cause instanceof NoGpuAnswer)) throw cause;
    const detail = `The GPU memory is not known: ${cause.message}; try again later`;
    throw new ServiceError('gpusUnknown', detail, { cause });
  }
}
