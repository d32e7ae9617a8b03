import { formatBytes } from '../contract/bytes.js';
import type { Usage, UsageRow } from '../contract/usage.js';
import { formatTable } from './terminal/format.js';

const cells = ({ jobs, gpu_hours, bytes_in, bytes_out }: Omit<UsageRow, 'owner' | 'app'>) => [
  String(jobs),
  gpu_hours.toFixed(2),
  formatBytes(bytes_in),
  formatBytes(bytes_out),
];

/** What was used as a table, with a sum where there is more than one row. */
export function describeUsage({ usage }: Usage): string[] {
  if (usage.length === 0) return [];
  const sum = (name: 'jobs' | 'gpu_hours' | 'bytes_in' | 'bytes_out') =>
    usage.reduce((total, row) => total + row[name], 0);
  const total = {
    jobs: sum('jobs'),
    gpu_hours: sum('gpu_hours'),
    bytes_in: sum('bytes_in'),
    bytes_out: sum('bytes_out'),
  };
  return formatTable(
    ['OWNER', 'APP', 'JOBS', 'GPU HOURS', 'UPLOADS', 'RESULTS'],
    [
      ...usage.map((row) => [row.owner ?? '-', row.app, ...cells(row)]),
      ...(usage.length > 1 ? [['all', '', ...cells(total)]] : []),
    ],
  );
}
