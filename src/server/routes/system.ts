import type { RouterContext } from '@koa/router';
import { FieldError, ServiceError } from '../../contract/errors.js';
import { quoteName } from '../../contract/quote.js';
import { type DeviceList, healthy, type MemoryUse } from '../../contract/system.js';
import { type Gpu, readVram } from '../devices/gpus.js';
import { gigabyte, readRam } from '../devices/ram.js';

export function health(ctx: RouterContext): void {
  ctx.body = healthy;
}

export const devices = (gpus: readonly Gpu[]) => (ctx: RouterContext) => {
  ctx.body = {
    devices_index: gpus.map(({ id }) => id),
    devices_name: gpus.map(({ name }) => name),
  } satisfies DeviceList;
};

export function ram(ctx: RouterContext): void {
  ctx.body = readRam();
}

/** The ids of `devices=0&devices=1` or `devices=0,1`. */
function requestedIds(ctx: RouterContext): number[] {
  const texts = [ctx.query.devices ?? []].flat().flatMap((text) => text.split(','));
  if (texts.length === 0) throw new FieldError('devices', 'is required: the GPU ids to report on');
  return texts.map((text) => {
    if (!/^\d+$/.test(text.trim()))
      throw new FieldError('devices', `must be GPU ids, got ${quoteName(text)}`);
    return Number(text);
  });
}

export const vram = (gpus: readonly Gpu[]) => async (ctx: RouterContext) => {
  const ids = [...new Set(requestedIds(ctx))];
  const unknown = ids.filter((id) => !gpus.some((gpu) => gpu.id === id));
  if (unknown.length > 0) throw unknownGpus(unknown, gpus);
  const uses = (await readVram()).filter(({ id }) => ids.includes(id));
  ctx.body = {
    used_gb: uses.reduce((sum, { used }) => sum + used, 0) / gigabyte,
    total_gb: uses.reduce((sum, { total }) => sum + total, 0) / gigabyte,
  } satisfies MemoryUse;
};

/** The error for GPU ids that this server has not. */
export function unknownGpus(ids: readonly number[], gpus: readonly Gpu[]): ServiceError {
  const known = gpus.map(({ id }) => id).join(', ') || 'none';
  return new ServiceError('unknownGpu', `Unknown GPU id(s): ${ids.join(', ')}; this server has: ${known}`);
}
