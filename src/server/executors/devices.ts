import { ServiceError } from '../../contract/index.js';
import type { AskedDevices, Device, DeviceRequest, Grant } from './executor.js';

/** A GPU, as far as a request can name it. */
type Named = Pick<Device, 'id'>;

/** @throws ServiceError `unknownGpu` for ids of GPUs that this server does not have */
export function refuseUnknown(ids: readonly number[], gpus: readonly Named[]): void {
  const unknown = ids.filter((id) => !gpus.some((gpu) => gpu.id === id));
  if (unknown.length === 0) return;
  const known = gpus.map(({ id }) => id).join(', ') || 'none';
  throw new ServiceError('unknownGpu', `Unknown GPU id(s): ${unknown.join(', ')}; this server has: ${known}`);
}

/**
 * Where a job may run (interface.md, Submission: `gpu`).
 * @param known null while the GPUs are not known: a job that wants one waits until they are, and is checked then
 * @throws ServiceError `noGpu` or `unknownGpu`
 */
export function checkDevices(
  { gpus: ids, isCpu, workers }: AskedDevices,
  known: readonly Named[] | null,
): DeviceRequest {
  if (!ids) return isCpu || known?.length === 0 ? { kind: 'cpu', workers } : { kind: 'anyGpu' };
  if (known?.length === 0) {
    throw new ServiceError(
      'noGpu',
      "This server has no GPU; leave out 'gpu', or send 'cpu', to run on its CPU",
    );
  }
  if (known) refuseUnknown(ids, known);
  return { kind: 'gpus', ids };
}

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
