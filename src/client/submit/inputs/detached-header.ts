import path from 'node:path';
import { firstBytes } from '../../../files/first-bytes.js';

/** Most bytes of a header that are read, after a first piece that nearly every header fits into. */
const longest = 64 * 1024;
const firstPiece = 4 * 1024;

/** The first match in the text that a file begins with; a line that is cut does not count. */
function matchInText(file: string, pattern: RegExp): RegExpExecArray | null {
  for (const bytes of [firstPiece, longest]) {
    const start = firstBytes(file, bytes);
    const isWhole = start.length < bytes;
    const text = (isWhole ? start : start.subarray(0, start.lastIndexOf('\n') + 1)).toString();
    const match = pattern.exec(text);
    if (match || isWhole) return match;
  }
  return null;
}

/** MetaImage: the last line of its header. */
const metaLine = /^[ \t]*ElementDataFile[ \t]*[=:][ \t]*([^\r\n]*)/im;

/** NRRD: a line of the header, which ends at the first empty line. */
const nrrdLine = /^NRRD(?:[^\r\n]+\r?\n)+?data ?file:[ \t]*([^\r\n]*)/i;

/** What the words mean that a header has for its data file: one name, or nothing that is known here. */
function namesIn(words: string | undefined): readonly string[] | null {
  const name = words?.trim() ?? '';
  // A list of files, a pattern of names (`slice_%03d.raw 1 20 1`), or the same file.
  return name === '' || name.includes('%') || /^(local|list)(\s|$)/i.test(name) ? null : [name];
}

const pairHeader = /\.hdr(\.gz)?$/i;
const pairVoxels = /\.img(\.gz)?$/i;

/** The first number of the header of an ANALYZE or NIfTI-1 pair, and of a NIfTI-2 pair: how long it is. */
const headerSizes = [348, 540];

/** Whether a `.hdr` is of ANALYZE or NIfTI: other formats use this ending for text. */
function isPairHeader(file: string): boolean {
  if (/\.gz$/i.test(file)) return true;
  const start = firstBytes(file, 4);
  return (
    start.length === 4 &&
    headerSizes.some((size) => [start.readInt32LE(), start.readInt32BE()].includes(size))
  );
}

/** Names that differ in their endings, in the case of letters that the name has. */
function withEndings(stem: string, endings: readonly string[], like: string): string[] {
  const isUpper = like === like.toUpperCase();
  return endings.map((ending) => stem + (isUpper ? ending.toUpperCase() : ending));
}

/** The part of a name that both files of a pair share: `vol` of `vol.hdr` and `vol.img.gz`. Null for any other file. */
export function pairStem(name: string): string | null {
  const match = pairHeader.exec(name) ?? pairVoxels.exec(name);
  return match ? name.slice(0, match.index) : null;
}

export const isPairVoxels = (name: string): boolean => pairVoxels.test(name);

/** The names that the header of a `.img` may have. */
export function headersOf(file: string): string[] {
  const name = path.basename(file);
  const ending = pairVoxels.exec(name);
  return ending ? withEndings(name.slice(0, ending.index), ['.hdr', '.hdr.gz'], ending[0]) : [];
}

/**
 * Where the voxels of a file are if they are in another one, as paths relative to its directory, one of which there has to
 * be. Null for a file that has them itself, and where that cannot be said for certain.
 */
export function voxelFilesOf(file: string): readonly string[] | null {
  const name = path.basename(file);
  if (/\.(mhd|mha)$/i.test(name)) return namesIn(matchInText(file, metaLine)?.[1]);
  if (/\.(nhdr|nrrd)$/i.test(name)) return namesIn(matchInText(file, nrrdLine)?.[1]);
  const ending = pairHeader.exec(name);
  if (!ending || !isPairHeader(file)) return null;
  return withEndings(name.slice(0, ending.index), ['.img', '.img.gz'], ending[0]);
}
