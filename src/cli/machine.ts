import type { Gpu, Machine } from '../client/connection/machine.js';
import { oneLine } from '../contract/quote.js';
import type { MemoryUse } from '../contract/system.js';
import { formatMemory, formatTable } from './terminal/format.js';

export type { Machine };

const hasMemory = (gpu: Gpu): gpu is Gpu & MemoryUse => gpu.total_gb !== undefined;

/** GPUs as a table, and the RAM below it. */
export function describeMachine({ gpus, ram }: Machine): string[] {
  const columns: [string, (gpu: Gpu) => string][] = [
    ['ID', ({ id }) => String(id)],
    ['GPU', ({ name }) => name],
  ];
  if (gpus.some(({ free }) => free !== undefined))
    columns.push(['FREE', ({ free }) => (free ? 'yes' : 'no')]);
  // A cluster tells the memory of no GPU.
  if (gpus.some(({ free }) => free === undefined))
    columns.push(['MEMORY', (gpu) => (hasMemory(gpu) ? formatMemory(gpu) : 'not told')]);
  if (gpus.some(({ loaded }) => loaded !== undefined))
    columns.push(['LOADED', ({ loaded }) => loaded?.map(oneLine).join(', ') || '-']);
  const rows = gpus.map((gpu) => columns.map(([, cell]) => cell(gpu)));
  const table =
    rows.length > 0
      ? formatTable(
          columns.map(([name]) => name),
          rows,
        )
      : ['No GPUs'];
  return [...table, `RAM: ${formatMemory(ram)}`];
}
