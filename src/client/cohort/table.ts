import { statSync } from 'node:fs';
import path from 'node:path';
import { writeTextFile } from '../../files/index.js';
import type { CaseState } from './state.js';

/** A cell: quoted where it has to be, as in RFC 4180, and on one line. */
function cell(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  // A spreadsheet would compute what begins like a formula, and a file name may begin like one.
  const text = (value ?? '').replaceAll(/\s*[\r\n]+\s*/g, ' ').replace(/^(?=[=+@-])/, "'");
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Writes the table anew: a row for each case, and a column for each number that any of them has. */
export function writeTable(file: string, states: readonly CaseState[]): void {
  const columns = [...new Set(states.flatMap(({ numbers }) => Object.keys(numbers)))];
  const heading = ['case', 'status', 'reason', 'seconds', 'job', ...columns];
  const line = (cells: readonly (string | number | null)[]) => `${cells.map(cell).join(',')}\r\n`;
  const lines = states.map(({ name, status, reason, seconds, jobId, numbers }) =>
    line([
      name,
      status === 'done' || status === 'failed' ? status : 'waiting',
      reason,
      seconds,
      jobId,
      ...columns.map((column) => numbers[column] ?? null),
    ]),
  );
  // Whoever may read the directory may read the table.
  const mode = statSync(path.dirname(file)).mode & 0o666;
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  writeTextFile(file, line(heading) + lines.join(''), { like: { mode, uid, gid } });
}
