import { oneLine } from '../../contract/quote.js';

/** A GPU as nvidia-smi shows it at one moment. */
export interface GpuRow {
  /** nvidia-smi's index. */
  readonly id: number;
  /** Empty if nvidia-smi does not tell. */
  readonly uuid: string;
  readonly name: string;
  /** What nvidia-smi says in place of a value of a GPU that has failed, such as `[GPU is lost]`; otherwise null. */
  readonly fault: string | null;
  /** Bytes; null if nvidia-smi prints no number. */
  readonly used: number | null;
  readonly total: number | null;
  /** False for a GPU without memory of its own, or whose driver never tells it. */
  readonly isMemoryTold: boolean;
}

/** The columns that nvidia-smi is asked for. The name comes last because it may contain commas. */
export const columns = ['index', 'uuid', 'memory.used', 'memory.total', 'name'] as const;

const mebibyte = 1024 ** 2;
/** More GPUs than any machine has. */
const mostRows = 1024;
const longestName = 200;

/** Printed by nvidia-smi for a figure that a GPU does not have, or that its driver does not tell, or not to this user. */
const notTold = /^\[?(N\/A|Not Supported|Not Found|Function Not Found|Insufficient Permissions)\]?$/i;

/** Printed for a GPU that the driver cannot ask. */
const isFault = (cell: string): boolean => /^(\[.*\]|ERR!)$/.test(cell) && !notTold.test(cell);

/** Some versions print the unit although they are asked not to. */
function bytes(cell: string): number | null {
  const [, figure] = /^(\d{1,9})( MiB)?$/.exec(cell) ?? [];
  return figure === undefined ? null : Number(figure) * mebibyte;
}

function parseRow(line: string): GpuRow | null {
  const [index = '', uuid = '', used = '', total = '', ...name] = line.split(',').map((cell) => cell.trim());
  if (!/^\d{1,4}$/.test(index) || name.length === 0) return null;
  const fault = [uuid, name.join(', '), used, total].find(isFault);
  return {
    id: Number(index),
    uuid: /^[\w-]{1,100}$/.test(uuid) ? uuid : '',
    name: oneLine(name.join(', ')).slice(0, longestName),
    fault: fault === undefined ? null : oneLine(fault).slice(0, longestName),
    used: bytes(used),
    total: bytes(total),
    isMemoryTold: !notTold.test(used) && !notTold.test(total),
  };
}

/**
 * The rows of nvidia-smi's answer (CSV, no header, no units). Skips other lines: nvidia-smi prints warnings between its
 * rows ("WARNING: infoROM is corrupted at gpu ..."). Skips a second row with the same index as well.
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

/** The first line of an answer that is no row, such as a warning; empty if all are. */
export const firstOddLine = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trim())
    .find((line) => line !== '' && !parseRow(line)) ?? '';
