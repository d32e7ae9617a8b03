import type { RouterContext } from '@koa/router';
import { FieldError, ServiceError } from '../../contract/errors.js';
import { metricsType, parameters } from '../../contract/http.js';
import { quoteName } from '../../contract/quote.js';
import { type DeviceList, healthy, type Limits, type MemoryUse } from '../../contract/system.js';
import type { Gpu, GpuInventory } from '../devices/gpu-inventory.js';
import { NoGpuAnswer } from '../devices/nvidia-smi.js';
import { gigabyte, readRam } from '../devices/ram.js';
import { refuseUnknown } from '../devices/unknown-gpus.js';
import type { UploadSettings } from '../uploads/quota.js';

export function health(ctx: RouterContext): void {
  ctx.body = healthy;
}

/** The GPUs. @throws ServiceError `gpusUnknown` */
function known(inventory: GpuInventory): readonly Gpu[] {
  const { current, problem } = inventory;
  if (current) return current;
  throw new ServiceError('gpusUnknown', `The GPUs of this server are not known: ${problem}; try again later`);
}

export const devices = (inventory: GpuInventory) => (ctx: RouterContext) => {
  const gpus = known(inventory);
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
  const texts = [ctx.query[parameters.devices.name] ?? []].flat().flatMap((text) => text.split(','));
  if (texts.length === 0)
    throw new FieldError(parameters.devices.name, 'is required: the GPU ids to report on');
  return texts.map((text) => {
    if (!/^\d+$/.test(text.trim()))
      throw new FieldError(parameters.devices.name, `must be GPU ids, got ${quoteName(text)}`);
    return Number(text);
  });
}

/** The memory of these GPUs. @throws ServiceError `gpusUnknown` */
async function readVram(inventory: GpuInventory, gpus: readonly Gpu[]) {
  try {
    return await inventory.vram(gpus);
  } catch (cause) {
    if (!(cause instanceof NoGpuAnswer)) throw cause;
    throw new ServiceError('gpusUnknown', `The GPU memory is not known: ${cause.message}; try again later`, {
      cause,
    });
  }
}

export const vram = (inventory: GpuInventory) => async (ctx: RouterContext) => {
  const ids = [...new Set(requestedIds(ctx))];
  const gpus = known(inventory);
  refuseUnknown(ids, gpus);
  const uses = await readVram(
    inventory,
    gpus.filter(({ id }) => ids.includes(id)),
  );
  ctx.body = {
    used_gb: uses.reduce((sum, { used }) => sum + used, 0) / gigabyte,
    total_gb: uses.reduce((sum, { total }) => sum + total, 0) / gigabyte,
  } satisfies MemoryUse;
};

/** What is measured of the server, as text. */
export interface ShownMetrics {
  text(): Promise<string>;
}

export const metrics = (shown: ShownMetrics) => async (ctx: RouterContext) => {
  ctx.set('Content-Type', metricsType);
  ctx.body = await shown.text();
};

/** The limits that clients can ask for. */
export interface ShownLimits extends UploadSettings {
  /** Milliseconds that a job is kept once it has ended. */
  readonly grace: number;
  /** Milliseconds that a job may ask for instead. */
  readonly maxKeep: number;
}

export const limits = (shown: ShownLimits) => (ctx: RouterContext) => {
  ctx.body = {
    max_file_size: shown.maxFileSize,
    max_upload_size: shown.maxUploadSize,
    max_dataset_size: shown.maxDatasetSize,
    grace: shown.grace / 1000,
    max_keep: Math.max(shown.grace, shown.maxKeep) / 1000,
  } satisfies Limits;
};
