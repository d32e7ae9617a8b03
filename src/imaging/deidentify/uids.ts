import { createHmac } from 'node:crypto';

/** Days by which a patient's dates are shifted back: at least a year, less than eleven. */
const [minDays, rangeOfDays] = [366, 3650];

/**
 * Replaces the hospital's identifiers. The same identifier always gets the same pseudonym. Without the key, nobody can reverse it
 * or test known identifiers.
 */
export class Pseudonyms {
  constructor(private readonly key: Uint8Array) {}

  #digest(text: string): Buffer {
    return createHmac('sha256', this.key).update(text).digest();
  }

  /**
   * A UID derived from a UUID (PS3.5, B.2) of the version whose bits are free to choose (RFC 9562, version 8). At most 44
   * characters.
   */
  uid(uid: string): string {
    const bytes = this.#digest(uid).subarray(0, 16);
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    return `2.25.${BigInt(`0x${bytes.toString('hex')}`)}`;
  }

  /** Pseudonym of a patient ID: 16 characters. */
  patient(id: string): string {
    return this.#digest(`patient ${id}`).toString('hex', 0, 8).toUpperCase();
  }

  /**
   * Days by which a patient's dates are shifted back. They are the same for all studies, so that the time between them is
   * preserved.
   */
  daysBack(id: string): number {
    return minDays + (this.#digest(`days ${id}`).readUInt32BE(0) % rangeOfDays);
  }
}
