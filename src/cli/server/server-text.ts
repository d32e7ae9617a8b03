import type { Gpu, Machine } from '../../client/connection/index.js';
import {
  counted,
  type DeviceJob,
  formatBytes,
  type MemoryUse,
  oneLine,
  type Usage,
} from '../../contract/index.js';
import { distanceTo, formatMemory, formatTable } from '../terminal/index.js';

export type { Machine };

const hasMemory = (gpu: Gpu): gpu is Gpu & MemoryUse => gpu.total_gb !== undefined;

/** Who uses a GPU. Only an admin sees the jobs of all owners. */
function useOf({ free, job, jobs = [job ?? {}], out }: Gpu): string {
  if (free) return out ?? 'free';
  const inWords = ({ job_id, owner }: DeviceJob) =>
    job_id === undefined ? 'taken' : `job ${oneLine(job_id)}${owner ? ` of ${oneLine(owner)}` : ''}`;
  return [...jobs.map(inWords), ...(out ? [out] : [])].join(', ');
}

/** GPUs as a table, and the RAM below it. */
export function describeMachine({ gpus, ram, cpu_loaded }: Machine): string[] {
  const columns: [string, (gpu: Gpu) => string][] = [
    ['ID', ({ id }) => String(id)],
    ['GPU', ({ name }) => name],
  ];
  // A cluster does not report the memory of its GPUs.
  if (gpus.some(hasMemory))
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
  const onCpu = cpu_loaded ? [`Loaded on the CPU: ${cpu_loaded.map(oneLine).join(', ')}`] : [];
  return [...table, `RAM: ${formatMemory(ram)}`, ...onCpu];
}

/** When an owner last had a job. */
export const lastUse = (iso: string | null | undefined, now = Date.now()): string =>
  iso ? distanceTo(iso, now) : 'never';

const hours = (value: number): string => value.toFixed(2);

/** The numeric columns: heading, property and format. */
const figures = [
  ['JOBS', 'jobs', String],
  ['GPU HOURS', 'gpu_hours', hours],
  ['CPU HOURS', 'cpu_hours', hours],
  ['UPLOADS', 'bytes_in', formatBytes],
  ['RESULTS', 'bytes_out', formatBytes],
  ['KEPT', 'bytes_kept', formatBytes],
] as const;

/** The usage as a table, with a total if there are several rows, and the uploads that are kept for later submissions. */
export function describeUsage({ usage, uploads }: Usage): string[] {
  const kept = uploads.map(
    (each) =>
      `${each.owner === null ? '' : `${oneLine(each.owner)}: `}${counted(each.uploads, 'upload')} kept, ${formatBytes(each.bytes_kept)}`,
  );
  if (usage.length === 0) return kept;
  const sums = figures.map(([, name, text]) => text(usage.reduce((sum, row) => sum + row[name], 0)));
  const table = formatTable(
    ['OWNER', 'APP', ...figures.map(([heading]) => heading), 'LAST USE'],
    [
      ...usage.map((row) => [
        row.owner ?? '-',
        row.app,
        ...figures.map(([, name, text]) => text(row[name])),
        lastUse(row.last_used),
      ]),
      ...(usage.length > 1 ? [['all', '', ...sums]] : []),
    ],
  );
  return [...table, ...kept];
}
