import path from 'node:path';
import { carriesNumbers, isObject, maxNumbersBytes, parseReport, quoteName } from '../../contract/index.js';
import { differingParts, readSmallFile, withoutEnding } from '../../files/index.js';
import type { CaseRecord } from './record.js';

/** Maximum number of numbers for one case. */
const maxNumbers = 1000;

/** Names that mean nothing without the name of their report. */
const isStatistic = /^(mean|median|min|max|std|sum|count|threshold|components|passes)$/;

type Tree = Readonly<Record<string, unknown>>;

/** Label names by value, as the app states them. */
type LabelNames = Readonly<Record<string, { readonly name: string }>>;

const asWord = (text: string): string => text.trim().toLowerCase().replaceAll(/\s+/g, '_');

/** The labels of a report, by the names from the report or the app: `brain`, or `label_1` for a label without a name. */
function namedLabels(labels: Tree, names: LabelNames): Tree {
  const wanted = Object.entries(labels).map(([value, each]) => {
    const own = isObject(each) && typeof each.name === 'string' ? each.name : names[value]?.name;
    const isValue = /^\d+$/.test(value);
    return asWord(own ?? (isValue ? `label_${value}` : value)) || `label_${value}`;
  });
  const isShared = (name: string) => wanted.indexOf(name) !== wanted.lastIndexOf(name);
  return Object.fromEntries(
    Object.entries(labels).map(([value, each], at) => {
      const name = wanted[at] ?? value;
      return [isShared(name) ? `${name}_${value}` : name, each];
    }),
  );
}

/** The numbers in a tree, named by the keys that lead to them, and by label names: `volume_ml`, `brain.dice`. */
function* numbersIn(value: unknown, prefix: string, names: LabelNames): Generator<readonly [string, number]> {
  if (typeof value === 'number') {
    if (Number.isFinite(value)) yield [prefix, value];
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, each] of Object.entries(value)) {
    const inside = key === 'labels' && isObject(each) ? namedLabels(each, names) : null;
    if (inside) yield* numbersIn(inside, prefix, names);
    else yield* numbersIn(each, prefix === '' ? key : `${prefix}.${key}`, names);
  }
}

/** The values of KonfAI's report by metric; the level for the case is removed if there is only one case. */
function withoutCaseNames(metrics: Tree): Tree {
  return Object.fromEntries(
    Object.entries(metrics).map(([metric, byCase]) => {
      const values = isObject(byCase) ? Object.values(byCase) : [];
      return [metric, values.length === 1 ? values[0] : byCase];
    }),
  );
}

/** A report's name for one of its files, without the ending: `sub-01_mask` for `sub-01_mask.nii.gz`. */
const fileOf = (each: unknown, at: number): string =>
  isObject(each) && typeof each.case === 'string' ? withoutEnding(each.case).toLowerCase() : String(at + 1);

/**
 * The part of a report about the case. The rest describes how it was computed, or is a mean over the cases, of which there is
 * only one. If the report covers several files of the case, each is named by the part of its name that differs from the others.
 */
function ofCase(report: unknown): unknown {
  if (!isObject(report)) return null;
  if (isObject(report.case)) return withoutCaseNames(report.case);
  if (!Array.isArray(report.cases)) return report;
  if (report.cases.length < 2) return report.cases[0] ?? null;
  const parts = differingParts(report.cases.map(fileOf)).map((part) =>
    part.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ''),
  );
  return Object.fromEntries(report.cases.map((each, at) => [parts[at] || String(at + 1), each]));
}

/**
 * The numbers in a result, for the columns of a table, and what could not be read, as sentences without a full stop. If two
 * reports use the same name for a number, the later one is prefixed with the path of its report.
 * @param labels the app's label names
 */
export function numbersOf(
  directory: string,
  outputs: readonly { readonly name: string; readonly size: number }[],
  labels: LabelNames,
): Pick<CaseRecord, 'numbers' | 'numbers_unread'> {
  const numbers = new Map<string, number>();
  const unread: string[] = [];
  for (const { name, size } of outputs) {
    const base = path.posix.basename(name, '.json');
    if (!carriesNumbers.test(path.posix.basename(name))) continue;
    if (size > maxNumbersBytes) {
      unread.push(
        `The numbers of ${quoteName(name)} are not read, since it is larger than ${maxNumbersBytes >> 20} MiB`,
      );
      continue;
    }
    let omitted = 0;
    try {
      const { value: report } = parseReport(readSmallFile(path.join(directory, name), maxNumbersBytes));
      for (const [key, value] of numbersIn(ofCase(report), '', labels)) {
        const isVague = base === 'Uncertainty' || isStatistic.test(key);
        const wanted = isVague ? `${base.toLowerCase()}.${key}` : key;
        const column = numbers.has(wanted) ? `${name.slice(0, -'.json'.length)}/${key}` : wanted;
        if (numbers.size < maxNumbers) numbers.set(column, value);
        else omitted += 1;
      }
    } catch (cause) {
      const why = cause instanceof SyntaxError ? 'it is not JSON' : (cause as Error).message;
      unread.push(`The numbers of ${quoteName(name)} cannot be read: ${why}`);
    }
    if (omitted > 0)
      unread.push(`${omitted} numbers of ${quoteName(name)} are left out: a case has at most ${maxNumbers}`);
  }
  return { numbers: Object.fromEntries(numbers), numbers_unread: unread };
}
