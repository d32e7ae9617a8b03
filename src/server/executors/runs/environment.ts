import type { Grant } from '../executor.js';

/** The environment variables that tell a command its GPUs. */
export function gpuEnvironment({ gpus }: Pick<Grant, 'gpus'>): Record<string, string> {
  if (gpus.length === 0) return { CUDA_VISIBLE_DEVICES: '' };
  // With this order CUDA numbers GPUs as nvidia-smi does.
  return { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: gpus.join(',') };
}

/** The GPUs that such an environment names; undefined if it has no such variable. */
export function gpusOfEnvironment(environment: Readonly<Record<string, string>>): number[] | undefined {
  return environment.CUDA_VISIBLE_DEVICES?.split(',').filter(Boolean).map(Number);
}
