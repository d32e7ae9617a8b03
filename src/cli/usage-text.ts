import { formatBytes, type Usage, type UsageRow } from '../contract/index.js';
import { formatTable } from './terminal/format.js';
import { formatDistance, readTime } from './terminal/time-text.js';

/** When somebody last had a job, in words. */
export function lastUse(iso: string | null | undefined, now = Date.now()): string {
  const at = readTime(iso ?? null);
  return at === null ? 'never' : formatDistance(at, now);
}

const cells = (row: Omit<UsageRow, 'owner' | 'app'>) => [
  String(row.jobs),
  row.gpu_hours.toFixed(2),
  formatBytes(row.bytes_in),
  formatBytes(row.bytes_out),
  // A server of an earlier version tells neither.
  row.bytes_kept === undefined ? '' : formatBytes(row.bytes_kept),
  row.last_used === undefined ? '' : lastUse(row.last_used),
];

/** What was used as a table, with a sum where there is more than one row. */
export function describeUsage({ usage }: Usage): string[] {
  if (usage.length === 0) return [];
  const sum = (name: 'jobs' | 'gpu_hours' | 'bytes_in' | 'bytes_out' | 'bytes_kept') =>
    usage.reduce((total, row) => total + (row[name] ?? 0), 0);
  const total = {
    jobs: sum('jobs'),
    gpu_hours: sum('gpu_hours'),
    bytes_in: sum('bytes_in'),
    bytes_out: sum('bytes_out'),
    bytes_kept: sum('bytes_kept'),
  };
  return formatTable(
    ['OWNER', 'APP', 'JOBS', 'GPU HOURS', 'UPLOADS', 'RESULTS', 'KEPT', 'LAST USE'],
    [
      ...usage.map((row) => [row.owner ?? '-', row.app, ...cells(row)]),
      ...(usage.length > 1 ? [['all', '', ...cells(total)]] : []),
    ],
  );
}
