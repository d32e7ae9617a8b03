/** The GPUs of this machine, by nvidia-smi. */
export { failureInWords, type Gpu, GpuInventory, MemoryNotTold } from './gpu-inventory.js';
export { NoGpuAnswer, NvidiaSmi } from './nvidia-smi.js';
