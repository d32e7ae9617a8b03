import type { ArchiveSource } from './archive-source.js';
import { damagedEntry } from './errors.js';
import type { ZipEntry } from './zip-entry.js';

/** Of the header in front of an entry's bytes, which repeats most of what the archive's directory says. */
const signature = 0x04034b50;

/** Bytes of that header before the name. */
export const localHeaderSize = 30;

/** The position of the content behind a local header at `at`; null if there is no local header. */
export function startOfContent(bytes: Buffer, at: number): number | null {
  if (at + localHeaderSize > bytes.length || bytes.readUInt32LE(at) !== signature) return null;
  return at + localHeaderSize + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28);
}

/**
 * Where the bytes of an entry begin in its archive.
 * @throws ArchiveError if there is no local header where the directory says
 */
export async function placeOfContent(source: ArchiveSource, entry: ZipEntry): Promise<number> {
  const { offsetToLocalFileHeader: offset, compressedSize } = entry;
  // A damaged directory with zip64 may state others.
  if (![offset, compressedSize].every(Number.isSafeInteger)) throw damagedEntry(entry.path);
  const start = startOfContent(await source.read(Buffer.alloc(localHeaderSize), offset), 0);
  if (start === null) throw damagedEntry(entry.path);
  return offset + start;
}

/** Whether the bytes of an entry are deflated; they are stored as they are otherwise. */
export const isDeflated = (entry: ZipEntry): boolean => entry.compressionMethod !== 0;
