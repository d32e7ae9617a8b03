import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { type Field, flagName, oneLine, quotePath } from '../../contract/index.js';
import { exists, lookAt, splitPattern } from '../../imaging/index.js';

/** A word of the command line as oclif has read it: a flag's value, or a path without a flag. */
export interface Word {
  readonly type: 'arg' | 'flag';
  readonly input: string;
  readonly flag?: string;
}

/** A flag that names files, with its value. */
interface FileFlag {
  readonly field: Field;
  readonly value: string;
}

const flagOf = ({ char, ...field }: Field): string => (char ? `-${char}` : `--${flagName(field)}`);

/** A pattern that a shell may have expanded to these paths. */
function patternOf(paths: readonly string[]): string {
  const directories = new Set(paths.map((each) => path.dirname(each)));
  const endings = new Set(paths.map((each) => /(\.nii)?\.[^.]+$/i.exec(path.basename(each))?.[0] ?? ''));
  const name = `*${endings.size === 1 ? [...endings].join() : ''}`;
  return oneLine(directories.size === 1 ? path.join(...directories, name) : name);
}

/**
 * The error for a flag with one path, followed by more paths.
 * @param strays the paths after the flag's value, either expanded from a pattern by the shell or typed by the user
 */
function refuseNext({ field, value }: FileFlag, strays: readonly [string, ...string[]]): UsageError {
  const flag = flagOf(field);
  const more = strays.length > 1 ? ` and ${strays.length - 1} more follow` : ' follows';
  const inputs = field.role === 'paths' ? '' : `; write an input before ${flag}`;
  return new UsageError(
    `${flag} takes one path, and ${quotePath(strays[0])}${more} '${flag} ${oneLine(value)}': for one group ` +
      `quote the pattern (${flag} '${patternOf([value, ...strays])}'); for a group of each write ${flag} before each${inputs}`,
  );
}

/** The first path of a list: the longest that exists, otherwise up to the first comma after its existing directories. */
function firstPath(list: string): string {
  const commas = [...list.matchAll(/,/g)].map(({ index }) => index);
  const there = commas.reverse().find((at) => exists(list.slice(0, at)));
  if (there !== undefined) return list.slice(0, there);
  const start = list.length - splitPattern(list).rest.length;
  // A comma in braces is part of a pattern.
  const end = list.replaceAll(/\{[^{}]*\}/g, (braces) => ' '.repeat(braces.length)).indexOf(',', start);
  return end < 0 ? list : list.slice(0, end);
}

/** `A,B` means two paths, unless a file of that name exists. */
export function splitPaths(text: string): string[] {
  const list = text.trim();
  if (!list.includes(',') || exists(text)) return list === '' ? [] : [text];
  const first = firstPath(list);
  const others = splitPaths(list.slice(first.length + 1));
  return first.trim() === '' ? others : [first.trim(), ...others];
}

/** The extension of a file or store name; empty for a directory, and for a name without one. */
const endingOf = (file: string): string =>
  lookAt(file)?.stats?.isDirectory() && !/\.zarr$/i.test(file)
    ? ''
    : (/(\.nii)?\.[^./]+$/i.exec(path.basename(file))?.[0].toLowerCase() ?? '');

const withoutNumbers = (file: string): string => path.basename(file).replaceAll(/\d+/g, '');

/**
 * Whether a shell may have expanded one pattern to both: they are in the same directory, of the same kind, and neither is
 * a list.
 */
const mayBeOfOnePattern = (one: string, other: string): boolean =>
  path.dirname(one) === path.dirname(other) &&
  endingOf(one) === endingOf(other) &&
  [one, other].every((each) => splitPaths(each).length === 1);

/** Whether the path after a flag is the missing input, as in `--gt ./labels ./preds`. */
const isTheInput = ({ field, value }: FileFlag, strays: readonly string[], words: readonly Word[]): boolean =>
  field.role !== 'paths' &&
  strays.length === 1 &&
  strays.every((each) => endingOf(each) === '' && withoutNumbers(each) !== withoutNumbers(value)) &&
  words.filter(({ type, flag }) => type === 'arg' || flag === 'inputs').length === 1;

/**
 * Refuses paths without a flag that look like the rest of an expanded pattern. A shell expands `-i scans/*.nii.gz` to `-i
 * a.nii.gz b.nii.gz c.nii.gz`, where `-i` takes only the first: the others would become a group of their own, in front of it.
 * @throws UsageError with the commands that may have been meant
 */
export function checkPathOrder(fields: readonly Field[], words: readonly Word[]): void {
  for (const [index, { type, input: value, flag }] of words.entries()) {
    const field = type === 'flag' && fields.find((each) => each.kind === 'files' && flagName(each) === flag);
    if (!field) continue;
    const end = words.findIndex((word, at) => at > index && word.type === 'flag');
    const [first, ...rest] = words.slice(index + 1, end < 0 ? undefined : end).map((word) => word.input);
    if (first === undefined) continue;
    const strays = [first, ...rest] as const;
    if (!strays.some((each) => mayBeOfOnePattern(value, each))) continue;
    if (!isTheInput({ field, value }, strays, words)) throw refuseNext({ field, value }, strays);
  }
}
