/** The GPUs of this machine, as nvidia-smi reports them. */
export { DrainedGpus } from './drained-gpus.js';
export {
  failureInWords,
  type Gpu,
  GpuInventory,
  inventory,
  type KnownGpu,
  MemoryNotTold,
} from './gpu-inventory.js';
export { NoGpuAnswer } from './nvidia-smi.js';
