import { isUtf8 } from 'node:buffer';
import unzipper, { type CentralDirectory, type File } from 'unzipper';
import { archiveEnd, entrySize } from './archive-end.js';
import type { ArchiveSource } from './archive-source.js';
import { ArchiveError, damagedEntry } from './errors.js';

/** What the directory of an archive says of one entry, in unzipper's names. */
export type ZipEntry = Pick<
  File,
  | 'path'
  | 'pathBuffer'
  | 'flags'
  | 'compressionMethod'
  | 'crc32'
  | 'compressedSize'
  | 'uncompressedSize'
  | 'fileNameLength'
  | 'extraFieldLength'
  | 'externalFileAttributes'
  | 'offsetToLocalFileHeader'
>;

/** Code page 437 from byte 0x80 on: the encoding of zip names that are not marked as UTF-8. */
const upper =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0';

/**
 * The name of an entry. Many programs write UTF-8 without marking it, so a name that is valid UTF-8 is read as that, and
 * any other name as the format says.
 */
export function entryName(entry: ZipEntry): string {
  const bytes = entry.pathBuffer;
  // unzipper gives an empty string instead of an empty buffer.
  if (bytes.length === 0) return '';
  if (isUtf8(bytes)) return entry.path;
  return Array.from(bytes, (byte) => (byte < 0x80 ? String.fromCharCode(byte) : upper[byte - 0x80])).join('');
}

/** Takes options like unzipper's other `open` functions; its types do not say so. */
type OpenCustom = (
  source: ArchiveSource,
  options: { readonly tailSize: number },
) => Promise<CentralDirectory>;

/** The error for an archive of which a part would be left out without a word. */
const otherCount = (): ArchiveError =>
  new ArchiveError(
    'corrupt',
    "its end states another number of entries than its directory has; make it again, with 'zip -r' for instance",
  );

/**
 * The entries of an archive, as its directory lists them.
 * @throws ArchiveError if there are too many, they overlap, or the directory cannot be read, or not to its end
 */
export async function readDirectory(source: ArchiveSource, maxEntries: number): Promise<readonly ZipEntry[]> {
  const { entries: stated, tailSize, directory, size } = await archiveEnd(source.file);
  if (stated > maxEntries) {
    throw new ArchiveError('tooMany', `it has ${stated} entries, more than the ${maxEntries} allowed`);
  }
  let files: File[];
  try {
    ({ files } = await (unzipper.Open.custom as OpenCustom)(source, { tailSize }));
  } catch (cause) {
    throw source.failure ?? new ArchiveError('corrupt', 'its directory cannot be read', { cause });
  }
  const sizes = files.map(
    (file) => entrySize + file.fileNameLength + file.extraFieldLength + file.fileCommentLength,
  );
  if (sizes.reduce((sum, each) => sum + each, 0) < directory.length) throw otherCount();
  const packed = files.reduce((sum, { compressedSize }) => sum + compressedSize, 0);
  if (packed > size) {
    throw new ArchiveError(
      'corrupt',
      'its entries are to have more bytes than it has: it is damaged, or a zip bomb',
    );
  }
  return files;
}

/** Of the header in front of an entry's bytes, which repeats most of what the archive's directory says. */
const signature = 0x04034b50;

/** Bytes of that header before the name. */
const localHeaderSize = 30;

/**
 * Where the bytes of an entry begin in its archive.
 * @throws ArchiveError if there is no local header where the directory says
 */
export async function placeOfContent(source: ArchiveSource, entry: ZipEntry): Promise<number> {
  const { offsetToLocalFileHeader: offset, compressedSize } = entry;
  // A damaged directory with zip64 may state others.
  if (![offset, compressedSize].every(Number.isSafeInteger)) throw damagedEntry(entry.path);
  const header = await source.read(Buffer.alloc(localHeaderSize), offset);
  if (header.length < localHeaderSize || header.readUInt32LE() !== signature) throw damagedEntry(entry.path);
  return offset + localHeaderSize + header.readUInt16LE(26) + header.readUInt16LE(28);
}

/** Whether the bytes of an entry are deflated; they are stored as they are otherwise. */
export const isDeflated = (entry: ZipEntry): boolean => entry.compressionMethod !== 0;
