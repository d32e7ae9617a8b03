import { oneLine } from '../../contract/quote.js';

/** A GPU as nvidia-smi shows it at one moment. */
export interface GpuRow {
  /** As nvidia-smi numbers it. */
  readonly id: number;
  /** Empty where nvidia-smi does not tell. */
  readonly uuid: string;
  readonly name: string;
  /** Bytes; null where the figure is no number. */
  readonly used: number | null;
  readonly total: number | null;
}

/** What nvidia-smi is asked for, in the order of the cells of a row. A name may hold commas, so it comes last. */
export const columns = ['index', 'uuid', 'memory.used', 'memory.total', 'name'] as const;

const mebibyte = 1024 ** 2;
/** More GPUs than any machine has. */
const mostRows = 1024;
const longestName = 200;

/** What nvidia-smi prints for a GPU that has no memory of its own, or does not tell: it counts as none. */
const notTold = /^\[(N\/A|Not Supported)\]$/i;

function bytes(cell: string): number | null {
  if (notTold.test(cell)) return 0;
  return /^\d{1,9}$/.test(cell) ? Number(cell) * mebibyte : null;
}

function parseRow(line: string): GpuRow | null {
  const [index = '', uuid = '', used = '', total = '', ...name] = line.split(',').map((cell) => cell.trim());
  if (!/^\d{1,4}$/.test(index) || name.length === 0) return null;
  return {
    id: Number(index),
    uuid: /^[\w-]{1,100}$/.test(uuid) ? uuid : '',
    name: oneLine(name.join(', ')).slice(0, longestName),
    used: bytes(used),
    total: bytes(total),
  };
}

/**
 * The rows of nvidia-smi's answer (CSV, no header, no units). Other lines are passed over: nvidia-smi prints warnings
 * between its rows ("WARNING: infoROM is corrupted at gpu ..."). A second row of one id is passed over too.
 */
export function parseRows(text: string): readonly GpuRow[] {
  const rows = new Map<number, GpuRow>();
  for (const line of text.split('\n')) {
    const row = parseRow(line);
    if (row && !rows.has(row.id)) rows.set(row.id, row);
    if (rows.size === mostRows) break;
  }
  return [...rows.values()];
}
