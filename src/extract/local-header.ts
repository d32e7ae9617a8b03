/** The header in front of an entry's bytes. It repeats most of what the archive's central directory says. */

const signature = 0x04034b50;

/** Bytes before the name. */
export const localHeaderSize = 30;

/** The position of the content behind a local header at `at`; null if there is no local header. */
export function startOfContent(bytes: Buffer, at: number): number | null {
  if (at + localHeaderSize > bytes.length || bytes.readUInt32LE(at) !== signature) return null;
  return at + localHeaderSize + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28);
}
