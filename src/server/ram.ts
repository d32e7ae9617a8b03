import { totalmem } from 'node:os';
import type { MemoryUse } from '../contract/index.js';

/** Bytes of a gigabyte (docs/http.md, Health and system). */
export const gigabyte = 1024 ** 3;

/** The share of RAM that is in use. */
export function shareOfRam(): number {
  const { used_gb, total_gb } = readRam();
  return used_gb / total_gb;
}

/** RAM of the machine in bytes; inside a container, its memory limit. */
export function totalRam(): number {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}

export function readRam(): MemoryUse {
  const total = totalRam();
  const used = Math.max(0, total - process.availableMemory());
  return { used_gb: used / gigabyte, total_gb: total / gigabyte };
}
