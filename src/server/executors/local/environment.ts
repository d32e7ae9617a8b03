import type { Grant } from '../executor.js';

/** What tells a command which GPUs are its own. */
export function gpuEnvironment({ gpus }: Pick<Grant, 'gpus'>): Record<string, string> {
  if (gpus.length === 0) return { CUDA_VISIBLE_DEVICES: '' };
  // By bus id, CUDA numbers GPUs as nvidia-smi does.
  return { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: gpus.join(',') };
}

/** The GPUs that such an environment names; undefined where it does not tell. */
export function gpusOfEnvironment(environment: Readonly<Record<string, string>>): number[] | undefined {
  return environment.CUDA_VISIBLE_DEVICES?.split(',').filter(Boolean).map(Number);
}
