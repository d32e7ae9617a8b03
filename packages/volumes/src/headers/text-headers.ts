import type { ValueType } from '../volume.js';

/** Types of MetaImage. MET_LONG has four bytes, whatever the size of the machine's own long. */
const metaTypes: Readonly<Record<string, ValueType>> = {
  ...({ CHAR: 'int8', UCHAR: 'uint8', SHORT: 'int16', USHORT: 'uint16', INT: 'int32' } as const),
  ...({ UINT: 'uint32', LONG: 'int32', ULONG: 'uint32', LONG_LONG: 'int64' } as const),
  ...({ ULONG_LONG: 'uint64', FLOAT: 'float32', DOUBLE: 'float64' } as const),
};

/** The value type of a MetaImage name, such as `MET_SHORT`. */
export const metaTypeOf = (name = ''): ValueType | undefined =>
  metaTypes[name.replace(/^MET_/, '').replace(/_ARRAY$/, '')];

const nrrdTypes: readonly (readonly [ValueType, RegExp])[] = [
  ['int8', /^(signed char|int8|int8_t)$/],
  ['uint8', /^(uchar|unsigned char|uint8|uint8_t)$/],
  ['int16', /^(short|short int|signed short|signed short int|int16|int16_t)$/],
  ['uint16', /^(ushort|unsigned short|unsigned short int|uint16|uint16_t)$/],
  ['int32', /^(int|signed int|int32|int32_t)$/],
  ['uint32', /^(uint|unsigned int|uint32|uint32_t)$/],
  ['int64', /^(longlong|long long|long long int|signed long long|signed long long int|int64|int64_t)$/],
  ['uint64', /^(ulonglong|unsigned long long|unsigned long long int|uint64|uint64_t)$/],
  ['float32', /^float$/],
  ['float64', /^double$/],
];

/** The value type of an NRRD name, such as `unsigned short`. */
export const nrrdTypeOf = (name = ''): ValueType | undefined =>
  nrrdTypes.find(([, names]) => names.test(name.toLowerCase()))?.[0];

/** Whether a file begins like MetaImage. */
export const beginsAsMetaImage = (start: Buffer): boolean =>
  /^\s*(ObjectType|NDims|Comment)\s*[=:]/.test(start.toString('latin1', 0, 64));

/** Whether a file begins like NRRD. */
export const beginsAsNrrd = (start: Buffer): boolean => start.toString('latin1', 0, 7) === 'NRRD000';

/** A header of text lines, in a file of its own or before the voxels. */
export interface TextHeader {
  readonly fields: ReadonlyMap<string, string>;
  /** Key/value pairs of NRRD (`key:=value`). */
  readonly pairs?: ReadonlyMap<string, string>;
  /** Its length in bytes. */
  readonly end: number;
  /** The names of the data files, as written; null if the voxels follow the header. */
  readonly dataFiles: readonly string[] | null;
  /** Whether the header was complete. */
  readonly isWhole: boolean;
}

/** Maximum length of a header, in bytes: room for the names of 10,000 files. */
export const maxHeader = 1 << 20;

/** Maximum number of files that a header may name, and maximum length of a line and of a name pattern, in characters. */
const [maxFiles, maxLine, maxPattern] = [100_000, 1 << 16, 1024];

/** Decodes a name as UTF-8 from a header that was read as Latin-1. */
const decoded = (name: string): string => Buffer.from(name, 'latin1').toString();

/** Expands the data file names in a header: one name, or a pattern such as `slice%03d.raw 1 20 1` (from, to, step). */
function dataFileNames(words: string): string[] {
  if (words === '') return [];
  const parts = words.split(/[ \t]+/);
  const count = parts.length - 1 - parts.findLastIndex((part) => !/^-?\d+$/.test(part));
  const pattern = parts.slice(0, parts.length - count).join(' ');
  const conversion = /%(0?)(\d{0,2})d/;
  const isPattern = count >= 2 && count <= 4 && pattern.length <= maxPattern && conversion.test(pattern);
  if (!isPattern) return [decoded(words)];
  const [first = 0, last = 0, step = 1] = parts.slice(-count).map(Number);
  const files = Math.floor((last - first) / step) + 1;
  if (!(files >= 1 && files <= maxFiles)) return [];
  return Array.from({ length: files }, (_, at) =>
    decoded(pattern).replace(conversion, (_all, zero: string, width: string) =>
      String(first + at * step).padStart(Number(width), zero || ' '),
    ),
  );
}

const isList = (words: string): boolean => /^list(\s|$)/i.test(words);

/** The data files of a field: the lines below it if it says `LIST`, otherwise those that it names. */
function namesIn(words: string, below: readonly string[]): string[] {
  if (!isList(words)) return dataFileNames(words);
  const names = below.map((line) => decoded(line.trim())).filter((name) => name !== '');
  return names.length <= maxFiles ? names : [];
}

/**
 * Parses a header of MetaImage (https://itk.org/Wiki/ITK/MetaIO/Documentation).
 * @param start the first bytes of a file, with the whole header
 * @returns null for an incomplete header
 */
export function parseMetaHeader(start: Buffer): TextHeader | null {
  const text = start.toString('latin1', 0, maxHeader);
  const last = /^[ \t]*ElementDataFile[ \t]*[=:]([^\r\n]*)(\r?\n|$)/im.exec(text);
  if (!last) return null;
  const end = last.index + last[0].length;
  const fields = new Map(
    text
      .slice(0, end)
      .split('\n')
      .flatMap((line) => {
        const at = line.search(/[=:]/);
        return at < 0 ? [] : [[line.slice(0, at).trim(), line.slice(at + 1).trim()] as const];
      }),
  );
  const data = (last[1] ?? '').trim();
  const dataFiles = /^local$/i.test(data) ? null : namesIn(data, text.slice(end).split('\n'));
  return { fields, end, dataFiles, isWhole: !isList(data) };
}

/**
 * Parses a header of NRRD (https://teem.sourceforge.net/nrrd/format.html). Keys become lower case, without spaces.
 * @param start the first bytes of a file, with the whole header
 */
export function parseNrrdHeader(start: Buffer): TextHeader {
  const text = start.toString('latin1', 0, maxHeader);
  const blank = /\r?\n\r?\n/.exec(text);
  const end = blank ? blank.index + blank[0].length : text.length;
  const fields = new Map<string, string>();
  const pairs = new Map<string, string>();
  const lines = text.slice(0, end).split('\n');
  let dataFiles: string[] | null = null;
  for (const [at, line] of lines.entries()) {
    if (line.length > maxLine) continue;
    const [, name, mark, words] = /^([^:#=]+):(=?)(.*)$/.exec(line.trim()) ?? [];
    if (name === undefined || words === undefined) continue;
    if (mark === '=') {
      pairs.set(name, decoded(words.replace(/\\n/g, ' ')));
      continue;
    }
    const [key, value] = [name.toLowerCase().replace(' ', ''), words.trim()];
    fields.set(key, value);
    if (key !== 'datafile') continue;
    dataFiles = namesIn(value, lines.slice(at + 1));
    if (isList(value)) break;
  }
  return { fields, pairs, end, dataFiles, isWhole: blank !== null };
}
