/**
 * Characters that end a line in some program (Python's `splitlines` knows ten of them), that a terminal acts upon, or that change
 * the direction of the following text.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is escaped
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A readable form of an unprintable character: `\x07` or `\u202e`. */
export const escaped = (character: string): string => {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`;
};

/** Puts untrusted text on one line: unprintable characters become `\x0a` or `\u2028`. */
export const oneLine = (text: string): string => text.replace(unprintable, escaped);

/** Shortens untrusted text and puts it on one line. */
export const excerpt = (text: string, maxLength = 2000): string =>
  oneLine(text.length > maxLength ? `${text.slice(0, maxLength)}...` : text);

/** Quotes an untrusted name for a sentence: on one line, and shortened if it is very long. */
export const quoteName = (name: string, maxLength = 200): string => `'${excerpt(name, maxLength)}'`;

/** Quotes a path in full, so that a person can find the file. */
export const quotePath = (path: string): string => quoteName(path, 4096);

/** The message of an error without a leading 'Error:', which is added when it is displayed. */
export const unlabelled = (text: string): string => text.replace(/^(\s*error:\s+)+/i, '');

/** Whether a shell takes a text literally. */
export const isPlainWord = (text: string): boolean => /^[\w@%+=:,./-]+$/.test(text);

/** A text as one word of a POSIX shell, with nothing expanded. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A text as one word of a POSIX shell, quoted only if necessary. */
export const shellWord = (text: string): string => (isPlainWord(text) ? text : shellQuoted(text));

/** Maximum number of names in an error or a note. */
const maxShown = 5;

/** The first few of these texts on one line, and how many more there are. */
export function someOf(shown: readonly string[]): string {
  const rest = shown.length > maxShown ? ` and ${shown.length - maxShown} more` : '';
  return oneLine(shown.slice(0, maxShown).join(', ')) + rest;
}

/** A number with its noun: `1 file`, `3 files`. */
export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

const byteUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** A human-readable size, in powers of 1024. */
export function formatBytes(bytes: number): string {
  const step = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), byteUnits.length - 1);
  const value = bytes / 1024 ** step;
  return `${step === 0 ? value : value.toFixed(1)} ${byteUnits[step]}`;
}

/**
 * The number of bytes in a size such as `2GiB`, `2G`, `500MB` or `1048576`; undefined for any other text, and for 8 PiB and more.
 * A letter alone counts in powers of 1024, as in `du -h`, nginx and Docker; only `KB` and similar units are powers of 1000.
 */
export function parseSize(text: string): number | undefined {
  const [, digits = '', letter = '', end = ''] =
    /^(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?$/i.exec(text.trim()) ?? [];
  const power = ' KMGT'.indexOf(letter.toUpperCase() || ' ');
  const base = end.toUpperCase() === 'B' ? 1000 : 1024;
  const bytes = digits === '' ? Number.NaN : Math.floor(Number(digits) * base ** power);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Seconds of each unit, the largest first. */
const durationUnits = { d: 86_400, h: 3600, m: 60, s: 1 } as const;
type Unit = keyof typeof durationUnits;

/** The longest duration accepted, in seconds: 68 years. */
export const longestDuration = 2 ** 31 - 1;

/** Parses `90`, `90s`, `12h` or `7d` into seconds; undefined for any other text. */
export function readDuration(text: string): number | undefined {
  const [, digits = '', unit = 's'] = /^(\d+)\s*([smhd])?$/i.exec(text.trim()) ?? [];
  const seconds = Number(digits) * durationUnits[unit.toLowerCase() as Unit];
  return digits === '' || seconds > longestDuration ? undefined : seconds;
}

/** The inverse of `readDuration`, in the largest unit without a remainder: `7d`, `36h`, `90s`. */
export function spellDuration(seconds: number): string {
  const [unit, size] = Object.entries(durationUnits).find(
    ([, each]) => seconds > 0 && seconds % each === 0,
  ) ?? ['s', 1];
  return `${seconds / size}${unit}`;
}

/** The Damerau-Levenshtein distance of two words. */
function distance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      const ways = [
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        ...(isSwapped ? [(beforeLast[column - 2] ?? 0) + 1] : []),
      ];
      next.push(Math.min(...ways));
    }
    [beforeLast, last] = [last, next];
  }
  return last[to.length] ?? 0;
}

/** Longer words are not compared: nobody mistypes them, and the time grows with the product of the lengths. */
const maxWordLength = 200;

/**
 * The known word that was probably meant: at most a third of the letters differ, or it contains the word that was typed.
 * @returns null if none is close
 */
export function nearest(word: string, known: readonly string[]): string | null {
  const typed = word.toLowerCase();
  if (typed.length > maxWordLength) return null;
  const near = known
    .filter((each) => each.length <= maxWordLength)
    .map((each) => ({ each, differs: distance(typed, each.toLowerCase()) }))
    .filter(({ each, differs }) => differs <= Math.max(1, Math.floor(each.length / 3)))
    .sort((a, b) => a.differs - b.differs)[0];
  if (near) return near.each;
  return (typed.length > 2 && known.find((each) => each.toLowerCase().includes(typed))) || null;
}
