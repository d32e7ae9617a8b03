import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/** Device names on Windows, which are reserved in any directory and with any extension. */
const deviceName = /^(con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$) *(\.|$)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: Windows takes none of them
const forbidden = /[<>:"|?*\\\u0000-\u001f]/g;

/** Characters that Windows drops from the end of a name. */
const droppedEnd = /[. ]+$/;

/** The closest name that Windows allows: `T1_mask.nii`, `_aux.nii.gz`. */
export function windowsName(name: string): string {
  const plain = name.replace(forbidden, '_').replace(droppedEnd, (end) => '_'.repeat(end.length));
  return deviceName.test(plain) ? `_${plain}` : plain;
}

/** Maximum length in bytes of a file name on common file systems. */
export const maxNameBytes = 255;

/** The start of a name, cut to this many bytes without splitting a character. */
function startWithin(name: string, bytes: number): string {
  const whole = Buffer.from(name);
  if (whole.length <= bytes) return name;
  let end = Math.max(0, bytes);
  // In UTF-8, a byte whose first bits are 10 continues a character.
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return whole.toString('utf8', 0, end);
}

/**
 * A name that is not taken: `name` itself or a numbered form, such as `ct_1.nii.gz`, within the length that file systems allow.
 * @param counts the next number to try for each name, so that many files of one name do not each count from 1
 */
export function freeName(
  name: string,
  counts: Map<string, number>,
  isTaken: (name: string) => boolean,
): string {
  const dot = name.indexOf('.', 1);
  const suffix = dot < 0 ? '' : startWithin(name.slice(dot), 64);
  const stem = dot < 0 ? name : name.slice(0, dot);
  const build = (count: number): string => {
    const tail = count === 0 ? suffix : `_${count}${suffix}`;
    return startWithin(stem, maxNameBytes - Buffer.byteLength(tail)) + tail;
  };
  const first = build(0);
  let count = counts.get(first) ?? 0;
  let free = build(count);
  while (isTaken(free)) {
    count += 1;
    free = build(count);
  }
  counts.set(first, count + 1);
  return free;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const unsafe = /[/\\\u0000-\u001f\u007f]/g;

/** The closest name that `isSafeName` accepts, apart from its length: `a_b.nii` for a name with a line feed or a backslash. */
export function safeName(name: string, platform: NodeJS.Platform = process.platform): string {
  const plain = name.replace(unsafe, '_');
  return platform === 'win32' ? windowsName(plain) : plain;
}

/**
 * Whether a name from outside can be used as a file name: it is not a path, not too long, and has no control characters. The
 * rules of Windows apply only on Windows.
 */
export function isSafeName(name: string, platform: NodeJS.Platform = process.platform): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    Buffer.byteLength(name) <= maxNameBytes &&
    safeName(name, platform) === name
  );
}

/** A path or pattern with forward slashes only; on Windows the given one may have backslashes. */
export const withSlashes = (target: string): string =>
  process.platform === 'win32' ? target.replaceAll('\\', '/') : target;

/** A key that is the same for names which some file systems treat as equal. */
export const foldedName = (name: string): string => name.normalize('NFC').toLowerCase();

/** A path in which `~` or `~/` at its start stands for the user's home directory, as in a shell. */
export function expandHome(given: string, home = homedir()): string {
  return /^~(?=$|[/\\])/.test(given) ? path.join(home, given.slice(1)) : given;
}

/** Whether a path begins with another user's home directory in shell notation (`~ana/`), and no file has that name. */
export const isOfAnotherHome = (given: string): boolean => {
  const [, first] = /^(~[A-Za-z_][\w.-]*)\//.exec(given) ?? [];
  return first !== undefined && !existsSync(first);
};

/** Maximum number of notes that are listed; any more are only counted. */
const maxNotes = 20;

/** Sentences on what was renamed, cut or left out while an archive was packed or extracted. */
export class Notes {
  readonly #notes: string[] = [];
  #more = 0;

  add(sentence: string): void {
    if (this.#notes.length < maxNotes) this.#notes.push(sentence);
    else this.#more += 1;
  }

  list(): string[] {
    return this.#more === 0 ? [...this.#notes] : [...this.#notes, `and ${this.#more} more`];
  }
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/** The digits of a text from this position on. */
function digitsAt(text: string, start: number): string {
  let end = start;
  while (isDigit(text.charCodeAt(end))) end += 1;
  return text.slice(start, end);
}

const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Compares two digit strings as numbers of any length. */
function byNumber(a: string, b: string): number {
  const [short, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')];
  return short.length - other.length || byCodeUnits(short, other);
}

/**
 * The order of names: digits are compared as numbers, so that `case10` comes after `case2` whatever follows the number;
 * everything else is compared by code units, in every locale. Names that differ only in leading zeros are compared by code units.
 */
export function byName(a: string, b: string): number {
  let [atA, atB] = [0, 0];
  while (atA < a.length && atB < b.length) {
    const [unitA, unitB] = [a.charCodeAt(atA), b.charCodeAt(atB)];
    if (isDigit(unitA) && isDigit(unitB)) {
      const [numberA, numberB] = [digitsAt(a, atA), digitsAt(b, atB)];
      const difference = byNumber(numberA, numberB);
      if (difference !== 0) return difference;
      atA += numberA.length;
      atB += numberB.length;
    } else {
      if (unitA !== unitB) return unitA - unitB;
      atA += 1;
      atB += 1;
    }
  }
  return a.length - atA - (b.length - atB) || byCodeUnits(a, b);
}

/** The number of characters at the start that all texts share. Numbers are not split: `case1` and `case12` share `case`. */
function sharedStart(texts: readonly string[]): number {
  const [first = '', ...others] = texts;
  let shared = first.length;
  for (const other of others) {
    let at = 0;
    while (at < shared && other[at] === first[at]) at += 1;
    shared = at;
  }
  if (!texts.some((text) => /\d/.test(text[shared] ?? ''))) return shared;
  return first.slice(0, shared).replace(/\d+$/, '').length;
}

const reversed = (text: string): string => text.split('').reverse().join('');

/** The texts without the start and the end that they all share. */
export function differingParts(texts: readonly string[]): string[] {
  const start = sharedStart(texts);
  const rests = texts.map((text) => reversed(text.slice(start)));
  const end = sharedStart(rests);
  return rests.map((rest) => reversed(rest.slice(end)));
}

/** A name without its extension: `scan` for `scan.nii.gz`, `scan.mha` and `scan.ome.zarr`. */
export const withoutEnding = (name: string): string =>
  name.replace(/(?:(?:\.[a-z]\w*)?\.(?:gz|bz2)|(?:\.ome)?\.[a-z]\w*)$/i, '');
