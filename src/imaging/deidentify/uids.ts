import { createHmac } from 'node:crypto';

/** Days by which the dates of a patient go back: at least a year, less than eleven. */
const [minDays, rangeOfDays] = [366, 3650];

/**
 * Identifiers in place of those of the hospital: always the same for the same, and without the key nobody can tell which, or
 * try known ones.
 */
export class Pseudonyms {
  constructor(private readonly key: Uint8Array) {}

  #digest(text: string): Buffer {
    return createHmac('sha256', this.key).update(text).digest();
  }

  /** A UID made of a UUID (PS3.5, B.2), of the kind whose bits are chosen freely (RFC 9562, version 8). At most 44 characters. */
  uid(uid: string): string {
    const bytes = this.#digest(uid).subarray(0, 16);
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    return `2.25.${BigInt(`0x${bytes.toString('hex')}`)}`;
  }

  /** In place of a patient's number: 16 characters. */
  patient(id: string): string {
    return this.#digest(`patient ${id}`).toString('hex', 0, 8).toUpperCase();
  }

  /** How many days the dates of a patient go back. All studies go back by the same, so that the time between them is kept. */
  daysBack(id: string): number {
    return minDays + (this.#digest(`days ${id}`).readUInt32BE(0) % rangeOfDays);
  }
}
