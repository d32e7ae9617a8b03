import { ServiceError } from '../../contract/errors.js';
import type { Gpu } from './gpu-inventory.js';

/** @throws ServiceError `unknownGpu` for ids of GPUs that this server does not have */
export function refuseUnknown(ids: readonly number[], gpus: readonly Gpu[]): void {
  const unknown = ids.filter((id) => !gpus.some((gpu) => gpu.id === id));
  if (unknown.length === 0) return;
  const known = gpus.map(({ id }) => id).join(', ') || 'none';
  throw new ServiceError('unknownGpu', `Unknown GPU id(s): ${unknown.join(', ')}; this server has: ${known}`);
}
