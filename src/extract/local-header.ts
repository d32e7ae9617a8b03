/** The header that an entry has beside its bytes; it repeats most of what the archive's directory says. */

const signature = 0x04034b50;

/** Bytes before the name. */
export const localHeaderSize = 30;

/** Where the content begins behind a local header that begins at `at`; null where there is none. */
export function startOfContent(bytes: Buffer, at: number): number | null {
  if (at + localHeaderSize > bytes.length || bytes.readUInt32LE(at) !== signature) return null;
  return at + localHeaderSize + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28);
}
