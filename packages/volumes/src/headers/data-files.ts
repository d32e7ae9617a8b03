import path from 'node:path';
import { beginsAsNifti } from './nifti-layout.js';
import { parseMetaHeader, parseNrrdHeader, type TextHeader } from './text-headers.js';

/** A format whose volumes are two files with the same name: a header, and its voxels. */
interface Pair {
  readonly header: RegExp;
  readonly headerEndings: readonly string[];
  readonly voxels: RegExp;
  readonly voxelEndings: readonly string[];
  /** Recognises a header by its first bytes, where other formats use the same ending. */
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

/** A name or path without its ending: `vol` for `vol.hdr` and `vol.img.gz`. */
function stemOf(name: string, endings: readonly string[]): string {
  const lower = name.toLowerCase();
  const ending = endings.find((each) => lower.endsWith(each)) ?? '';
  return name.slice(0, name.length - ending.length);
}

/** The possible names of the other file of a pair, those in the same case first. */
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

/** The names or paths that the voxels of a pair's header may have; empty for any other file. */
export function voxelNamesOf(header: string): string[] {
  const pair = pairs.find((each) => each.header.test(header));
  return pair ? otherNames(header, pair.headerEndings, pair.voxelEndings) : [];
}

/** The names or paths that the header of a pair's voxels may have; empty for any other file. */
export function headerNamesOf(voxels: string): string[] {
  const pair = pairs.find((each) => each.voxels.test(voxels));
  return pair ? otherNames(voxels, pair.voxelEndings, pair.headerEndings) : [];
}

/** What the names of a pair have in common: `vol` for `vol.hdr` and `vol.img.gz`. Null for any other file. */
export function pairStem(name: string): string | null {
  for (const { header, headerEndings, voxels, voxelEndings } of pairs) {
    if (header.test(name)) return stemOf(name, headerEndings);
    if (voxels.test(name)) return stemOf(name, voxelEndings);
  }
  return null;
}

export const isPairVoxels = (name: string): boolean => pairs.some(({ voxels }) => voxels.test(name));

/** How much of a text header is read: first, and if it is longer. */
const pieces = [4 * 1024, 1024 * 1024];

/** Reads the first bytes of a file, up to a number of them. */
type Read = (length: number) => Buffer;

/** The header of a file; null if it does not end within what is read. */
function textHeaderOf(read: Read, parse: (start: Buffer) => TextHeader | null): TextHeader | null {
  for (const length of pieces) {
    const start = read(length);
    const isAll = start.length < length;
    // A line that is cut off is ignored.
    const header = parse(isAll ? start : start.subarray(0, start.lastIndexOf('\n') + 1));
    if (isAll || header?.isWhole) return header;
  }
  return null;
}

/**
 * The files with the voxels of a header: the possible names of each, relative to the header's directory. Null for a file that has
 * its own voxels, and if it is uncertain.
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
