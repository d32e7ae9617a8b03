import { stat } from 'node:fs/promises';
import path from 'node:path';
import { beginsAsNifti } from './nifti-layout.js';
import { parseMetaHeader, parseNrrdHeader, type TextHeader } from './text-headers.js';

/** A format whose volumes are two files with the same name: a header, and its voxels. */
interface Pair {
  readonly headers: readonly string[];
  readonly voxels: readonly string[];
  /** What the name must end with before these extensions. */
  readonly before?: RegExp;
  /** Recognises a header by its first bytes if other formats use the same extension. */
  readonly begins?: (start: Buffer) => boolean;
}

const pairs: readonly Pair[] = [
  { headers: ['.hdr', '.hdr.gz'], voxels: ['.img', '.img.gz'], begins: beginsAsNifti },
  { headers: ['.par'], voxels: ['.rec'] },
  { headers: ['.head'], voxels: ['.brik', '.brik.gz', '.brik.bz2'], before: /\+(orig|acpc|tlrc)$/i },
];

type Half = 'headers' | 'voxels';

/** A name or path without its extension, such as `vol` for `vol.img.gz`; null if it is not a file of this pair and half. */
function stemOf(name: string, pair: Pair, half: Half): string | null {
  const ending = pair[half].find((each) => name.toLowerCase().endsWith(each));
  const stem = ending === undefined ? null : name.slice(0, name.length - ending.length);
  return stem === null || pair.before?.test(stem) === false ? null : stem;
}

/** The possible names of the other file of a pair, those in the same case first; empty if the file is not part of a pair. */
function otherNames(name: string, half: Half, other: Half): string[] {
  for (const pair of pairs) {
    const stem = stemOf(name, pair, half);
    if (stem === null) continue;
    const ending = name.slice(stem.length).replace(/\.(gz|bz2)$/, '');
    const others = pair[other];
    const inUpperCase = others.flatMap((each) => [
      each.replace(/^\.\w+/, (first) => first.toUpperCase()),
      each.toUpperCase(),
    ]);
    const all = ending === ending.toUpperCase() ? [...inUpperCase, ...others] : [...others, ...inUpperCase];
    return [...new Set(all)].map((each) => stem + each);
  }
  return [];
}

/** The possible names or paths of the voxels of a header; empty if the file is not the header of a pair. */
export const voxelNamesOf = (header: string): string[] => otherNames(header, 'headers', 'voxels');

/** The possible names or paths of the header of voxels; empty if the file does not hold the voxels of a pair. */
export const headerNamesOf = (voxels: string): string[] => otherNames(voxels, 'voxels', 'headers');

/** The first of these files that exists; null if none does. */
export async function firstFile(names: readonly string[]): Promise<string | null> {
  for (const name of names) if ((await stat(name).catch(() => null))?.isFile()) return name;
  return null;
}

/** The stem that the names of a pair share: `vol` for `vol.hdr` and `vol.img.gz`. Null if the file is not part of a pair. */
export function pairStem(name: string): string | null {
  const stems = pairs.map((pair) => stemOf(name, pair, 'headers') ?? stemOf(name, pair, 'voxels'));
  return stems.find((stem) => stem !== null) ?? null;
}

export const isPairVoxels = (name: string): boolean =>
  pairs.some((pair) => stemOf(name, pair, 'voxels') !== null);

/** Bytes of a text header that are read: at first, and if it is longer. */
const pieces = [4 * 1024, 1024 * 1024];

/** Reads the first bytes of a file, up to `length`. */
export type Read = (length: number) => Buffer;

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
 * The voxel files of a header: the possible names of each, relative to the header's directory. Null for a file that contains its
 * voxels, and if it is uncertain.
 */
export function voxelFilesOf(file: string, read: Read): readonly (readonly string[])[] | null {
  const name = path.basename(file);
  const parse = /\.(mhd|mha)$/i.test(name)
    ? parseMetaHeader
    : /\.(nhdr|nrrd)$/i.test(name)
      ? parseNrrdHeader
      : null;
  if (parse) return textHeaderOf(read, parse)?.dataFiles?.map((each) => [each]) ?? null;
  const pair = pairs.find((each) => stemOf(name, each, 'headers') !== null);
  const isHeader = !pair?.begins || /\.gz$/i.test(name) || pair.begins(read(348));
  return pair && isHeader ? [voxelNamesOf(name)] : null;
}
