import { ServiceError } from '../../contract/errors.js';
import type { Gpu } from './gpu-inventory.js';

/** The error for GPU ids that this server has not. */
export function unknownGpus(ids: readonly number[], gpus: readonly Gpu[]): ServiceError {
  const known = gpus.map(({ id }) => id).join(', ') || 'none';
  return new ServiceError('unknownGpu', `Unknown GPU id(s): ${ids.join(', ')}; this server has: ${known}`);
}
