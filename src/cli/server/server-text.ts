import type { Gpu, Machine } from '../../client/connection/index.js';
import {
  counted,
  type DeviceJob,
  formatBytes,
  type MemoryUse,
  oneLine,
  type Usage,
  type UsageRow,
} from '../../contract/index.js';
import { formatDistance, formatMemory, formatTable, readTime } from '../terminal/index.js';

export type { Machine };

const hasMemory = (gpu: Gpu): gpu is Gpu & MemoryUse => gpu.total_gb !== undefined;

/** Who uses a GPU. The server names the jobs of all owners to an admin only. */
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
export function lastUse(iso: string | null | undefined, now = Date.now()): string {
  const at = readTime(iso ?? null);
  return at === null ? 'never' : formatDistance(at, now);
}

const figures = (row: Omit<UsageRow, 'owner' | 'app' | 'last_used'>) => [
  String(row.jobs),
  row.gpu_hours.toFixed(2),
  row.cpu_hours.toFixed(2),
  formatBytes(row.bytes_in),
  formatBytes(row.bytes_out),
  formatBytes(row.bytes_kept),
];

/** The usage as a table, with a total if there are several rows, and the uploads that are kept for later submissions. */
export function describeUsage({ usage, uploads }: Usage): string[] {
  const kept = uploads.map(
    (each) =>
      `${each.owner === null ? '' : `${oneLine(each.owner)}: `}${counted(each.uploads, 'upload')} kept, ${formatBytes(each.bytes_kept)}`,
  );
  if (usage.length === 0) return kept;
  const sum = (name: 'jobs' | 'gpu_hours' | 'cpu_hours' | 'bytes_in' | 'bytes_out' | 'bytes_kept') =>
    usage.reduce((total, row) => total + row[name], 0);
  const total = {
    jobs: sum('jobs'),
    gpu_hours: sum('gpu_hours'),
    cpu_hours: sum('cpu_hours'),
    bytes_in: sum('bytes_in'),
    bytes_out: sum('bytes_out'),
    bytes_kept: sum('bytes_kept'),
  };
  const table = formatTable(
    ['OWNER', 'APP', 'JOBS', 'GPU HOURS', 'CPU HOURS', 'UPLOADS', 'RESULTS', 'KEPT', 'LAST USE'],
    [
      ...usage.map((row) => [row.owner ?? '-', row.app, ...figures(row), lastUse(row.last_used)]),
      ...(usage.length > 1 ? [['all', '', ...figures(total)]] : []),
    ],
  );
  return [...table, ...kept];
}
