import type { Gpu, Machine } from '../client/connection/index.js';
import { type MemoryUse, oneLine } from '../contract/index.js';
import { formatMemory, formatTable } from './terminal/format.js';

export type { Machine };

const hasMemory = (gpu: Gpu): gpu is Gpu & MemoryUse => gpu.total_gb !== undefined;

/** Who has a GPU: an admin is told of all jobs, a user of their own. */
function useOf({ free, job }: Gpu): string {
  if (free) return 'free';
  if (job?.job_id === undefined) return 'taken';
  return `job ${oneLine(job.job_id)}${job.owner ? ` of ${oneLine(job.owner)}` : ''}`;
}

/** GPUs as a table, and the RAM below it. */
export function describeMachine({ gpus, ram }: Machine): string[] {
  const columns: [string, (gpu: Gpu) => string][] = [
    ['ID', ({ id }) => String(id)],
    ['GPU', ({ name }) => name],
  ];
  // A cluster tells the memory of no GPU.
  if (gpus.some((gpu) => hasMemory(gpu) || gpu.free === undefined))
    columns.push(['MEMORY', (gpu) => (hasMemory(gpu) ? formatMemory(gpu) : 'not told')]);
  if (gpus.some(({ free }) => free !== undefined)) columns.push(['USE', useOf]);
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
