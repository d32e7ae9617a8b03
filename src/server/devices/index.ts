/** The GPUs of this machine, by nvidia-smi. */
export { failureInWords, type Gpu, GpuInventory, inventory, MemoryNotTold } from './gpu-inventory.js';
export { NoGpuAnswer } from './nvidia-smi.js';
