import path from 'node:path';
import { readSmallFile } from '../../files/index.js';
import type { RecordedFile } from './record.js';

/** Files of a result that carry numbers: KonfAI's reports, and what apps write (docs/apps.md). */
const carriesNumbers = /^(measurements|Evaluation|Uncertainty|Metric_\w+)\.json$/;

/** Largest file that is read for its numbers, in bytes, and most numbers of one case. */
const [maxBytes, mostNumbers] = [4 << 20, 1000];

type Tree = Readonly<Record<string, unknown>>;

const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null;

/** The numbers of a tree, named by the keys that lead to them: `labels.1.dice`. */
function flattened(value: unknown, prefix: string, found: Map<string, number>): void {
  if (typeof value === 'number' && Number.isFinite(value) && found.size < mostNumbers)
    found.set(prefix, value);
  if (!isTree(value)) return;
  for (const [key, each] of Object.entries(value))
    flattened(each, prefix === '' ? key : `${prefix}.${key}`, found);
}

/** The values of KonfAI's report, which has them by metric and then by case, without the name of the one case. */
function withoutCaseNames(metrics: Tree): Tree {
  return Object.fromEntries(
    Object.entries(metrics).map(([metric, byCase]) => {
      const values = isTree(byCase) ? Object.values(byCase) : [];
      return [metric, values.length === 1 ? values[0] : byCase];
    }),
  );
}

/** The part of a report that is about the case. The rest says how it was computed, or is a mean over this one case. */
function ofCase(report: unknown): unknown {
  if (!isTree(report)) return null;
  if (isTree(report.case) && !Array.isArray(report.case)) return withoutCaseNames(report.case);
  return Array.isArray(report.cases) && report.cases.length === 1 ? report.cases[0] : report;
}

/**
 * The numbers that a result carries, for the columns of a table. If two reports have a number of the same name, the later one's
 * column begins with the path of its report. A report that cannot be read is skipped.
 */
export function numbersOf(directory: string, outputs: readonly RecordedFile[]): Record<string, number> {
  const numbers: Record<string, number> = {};
  for (const { name, size } of outputs) {
    if (!carriesNumbers.test(path.posix.basename(name)) || size > maxBytes) continue;
    const found = new Map<string, number>();
    try {
      flattened(ofCase(JSON.parse(readSmallFile(path.join(directory, name), maxBytes))), '', found);
    } catch {
      continue;
    }
    for (const [key, value] of found) {
      const column = Object.hasOwn(numbers, key) ? `${name.slice(0, -'.json'.length)}/${key}` : key;
      if (Object.keys(numbers).length < mostNumbers) numbers[column] = value;
    }
  }
  return numbers;
}
