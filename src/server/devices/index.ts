/** The GPUs of this machine, by nvidia-smi. */
export { DrainedGpus } from './drained-gpus.js';
export { failureInWords, type Gpu, GpuInventory, inventory, MemoryNotTold } from './gpu-inventory.js';
export { type MigInstance, NoGpuAnswer } from './nvidia-smi.js';
