import { createHash } from 'node:crypto';

/** Derives a UID from what identifies an object, so that the same object always gets the same UID (PS3.5, B.2). */
export function derivedUid(...parts: readonly (string | number)[]): string {
  const bytes = createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, 16);
  // The version and the variant of a custom UUID (RFC 9562, 5.8).
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return `2.25.${BigInt(`0x${bytes.toString('hex')}`)}`;
}
