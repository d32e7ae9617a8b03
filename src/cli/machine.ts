import type { Machine } from '../client/connection/machine.js';
import { formatMemory, formatTable } from './terminal/format.js';

export type { Machine };

/** GPUs as a table, and the RAM below it. */
export function describeMachine({ gpus, ram }: Machine): string[] {
  const rows = gpus.map((gpu) => [String(gpu.id), gpu.name, formatMemory(gpu)]);
  const table = rows.length > 0 ? formatTable(['ID', 'GPU', 'MEMORY'], rows) : ['No GPUs'];
  return [...table, `RAM: ${formatMemory(ram)}`];
}
