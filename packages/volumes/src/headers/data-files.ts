import path from 'node:path';
import { beginsAsNifti } from './nifti-layout.js';
import { parseMetaHeader, parseNrrdHeader, type TextHeader } from './text-headers.js';

/** Volumes of two files of one name: the header, and its voxels. */
interface Pair {
  readonly header: RegExp;
  readonly headerEndings: readonly string[];
  readonly voxels: RegExp;
  readonly voxelEndings: readonly string[];
  /** Whether a file is a header by its first bytes: other formats use this ending for text. */
  readonly begins?: (start: Buffer) => boolean;
}

const pairs: readonly Pair[] = [
  {
    header: /\.hdr(\.gz)?$/i,
    headerEndings: ['.hdr', '.hdr.gz'],
    voxels: /\.img(\.gz)?$/i,
    voxelEndings: ['.img', '.img.gz'],
    begins: beginsAsNifti,
  },
  { header: /\.par$/i, headerEndings: ['.par'], voxels: /\.rec$/i, voxelEndings: ['.rec'] },
  {
    header: /\+(orig|acpc|tlrc)\.head$/i,
    headerEndings: ['.head'],
    voxels: /\+(orig|acpc|tlrc)\.brik(\.gz|\.bz2)?$/i,
    voxelEndings: ['.brik', '.brik.gz', '.brik.bz2'],
  },
];

/** A name, or a path, without an ending: `vol` of `vol.hdr` and `vol.img.gz`. */
function stemOf(name: string, endings: readonly string[]): string {
  const lower = name.toLowerCase();
  const ending = endings.find((each) => lower.endsWith(each)) ?? '';
  return name.slice(0, name.length - ending.length);
}

/** The names of one half of a pair, by that of the other: first those in the same case of letters. */
function otherNames(name: string, endings: readonly string[], others: readonly string[]): string[] {
  const stem = stemOf(name, endings);
  const ending = name.slice(stem.length).replace(/\.(gz|bz2)$/, '');
  const inUpperCase = others.flatMap((each) => [
    each.replace(/^\.\w+/, (first) => first.toUpperCase()),
    each.toUpperCase(),
  ]);
  const all = ending === ending.toUpperCase() ? [...inUpperCase, ...others] : [...others, ...inUpperCase];
  return [...new Set(all)].map((each) => stem + each);
}

/** The names, or paths, that the voxels of a header may have which is one half of a pair; none for any other file. */
export function voxelNamesOf(header: string): string[] {
  const pair = pairs.find((each) => each.header.test(header));
  return pair ? otherNames(header, pair.headerEndings, pair.voxelEndings) : [];
}

/** The names, or paths, that the header of voxels may have which are one half of a pair; none for any other file. */
export function headerNamesOf(voxels: string): string[] {
  const pair = pairs.find((each) => each.voxels.test(voxels));
  return pair ? otherNames(voxels, pair.voxelEndings, pair.headerEndings) : [];
}

/** The part of a name that both files of a pair share: `vol` of `vol.hdr` and `vol.img.gz`. Null for any other file. */
export function pairStem(name: string): string | null {
  for (const { header, headerEndings, voxels, voxelEndings } of pairs) {
    if (header.test(name)) return stemOf(name, headerEndings);
    if (voxels.test(name)) return stemOf(name, voxelEndings);
  }
  return null;
}

export const isPairVoxels = (name: string): boolean => pairs.some(({ voxels }) => voxels.test(name));

/** Bytes of a header of text that are read: at first, which nearly every one fits into, and then. */
const pieces = [4 * 1024, 1024 * 1024];

/** Reads the first bytes of a file, up to this many. */
type Read = (most: number) => Buffer;

/** The header of a file; null for one that does not end within what is read. */
function textHeaderOf(read: Read, parse: (start: Buffer) => TextHeader | null): TextHeader | null {
  for (const most of pieces) {
    const start = read(most);
    const isAll = start.length < most;
    // A line that is cut off does not count.
    const header = parse(isAll ? start : start.subarray(0, start.lastIndexOf('\n') + 1));
    if (isAll || header?.isWhole) return header;
  }
  return null;
}

/**
 * The other files that hold the voxels of a file: for each, its possible names, relative to the header's directory. Null for a
 * file that has its own voxels, and if that is uncertain.
 */
export function voxelFilesOf(file: string, read: Read): readonly (readonly string[])[] | null {
  const name = path.basename(file);
  const parse = /\.(mhd|mha)$/i.test(name)
    ? parseMetaHeader
    : /\.(nhdr|nrrd)$/i.test(name)
      ? parseNrrdHeader
      : null;
  if (parse) return textHeaderOf(read, parse)?.dataFiles?.map((each) => [each]) ?? null;
  const pair = pairs.find(({ header }) => header.test(name));
  const isHeader = !pair?.begins || /\.gz$/i.test(name) || pair.begins(read(348));
  return pair && isHeader ? [voxelNamesOf(name)] : null;
}
