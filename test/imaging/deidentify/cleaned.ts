import { readFile } from 'node:fs/promises';
import parser, { type DataSet } from 'dicom-parser';
import { deidentifyDicom } from '../../../src/imaging/deidentify/dicom.js';
import type { Deidentified } from '../../../src/imaging/deidentify/pieces.js';
import { CannotDeidentify } from '../../../src/imaging/deidentify/refusals.js';
import { Pseudonyms } from '../../../src/imaging/deidentify/uids.js';

export const pseudonyms = new Pseudonyms(Buffer.alloc(32, 7));

/** The bytes of a de-identified file that are sent. */
export async function bytesOf(file: string, { pieces, size }: Deidentified): Promise<Buffer> {
  const whole = await readFile(file);
  const parts = pieces.map((piece) =>
    piece instanceof Uint8Array ? piece : whole.subarray(piece.start, piece.end),
  );
  const bytes = Buffer.concat(parts);
  if (bytes.length !== size) throw new Error(`${size} bytes were announced, and ${bytes.length} came`);
  return bytes;
}

export async function cleaned(file: string, ...allowed: string[]): Promise<Buffer> {
  const how = { pseudonyms, allowed: new Set(allowed) };
  return bytesOf(file, await deidentifyDicom(file, 'scan.dcm', how));
}

/** The sentence with which a file is refused, and the name of the refusal. */
export const refusalOf = (file: string, ...allowed: string[]): Promise<[string, string]> =>
  cleaned(file, ...allowed).then(
    () => ['none', ''],
    (error: unknown) => {
      if (error instanceof CannotDeidentify) return [error.refusal, error.message];
      throw error;
    },
  );

export const parsed = (bytes: Buffer): DataSet => parser.parseDicom(bytes);
