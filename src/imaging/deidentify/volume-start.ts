import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';

/** How voxels are packed. */
export type Packing = 'gzip' | 'zlib';

/** A header as it leaves, and where the voxels are that belong to it. */
export interface VolumeStart {
  /** What the header still says, and what it does not say any more: names of fields, never values. */
  readonly kept: readonly string[];
  readonly removed: readonly string[];
  /** The files that it names for the voxels; none where these are in a file of its own name, null if they follow it. */
  readonly dataFiles: readonly string[] | null;
  /** Where what is packed begins in the file that holds it. */
  readonly from: number;
  /** Bytes before the voxels in each file that has them, unpacked; null where the voxels are its last ones. */
  readonly before: number | null;
  /** Bytes of all voxels, unpacked. */
  readonly voxels: number;
  /** What follows the voxels and leaves as well: how many bytes, and how they leave of those that are there. */
  readonly behind?: { readonly bytes: number; readonly encode: (bytes: Buffer) => Buffer };
  /** How the voxels are packed in their file; null if they are not, or if the whole file is. */
  readonly packing: Packing | null;
  /**
   * The header.
   * @param names those under which the files with the voxels leave
   * @param packed bytes of the voxels behind it as they are packed now
   */
  encode(names: readonly string[], packed: number | null): Buffer;
}

/** The error about a file whose content cannot be told from what identifies a person. */
export const notUnderstood = (file: string, why: string): UsageError =>
  new UsageError(
    `${quotePath(file)} cannot be de-identified: ${why}. ` +
      'Give --deidentify=names to send it as it is under a neutral name, or --no-deidentify to send it as it is',
  );

/** Whether a text fits this pattern. */
export const oneOf = (pattern: RegExp) => (text: string) => pattern.test(text);

/** Whether a text is of numbers alone, with the signs between them. */
export const isOfNumbers = (text: string): boolean => /^(none|nan|[-+\d.eE\s(),])+$/i.test(text);

/**
 * Refuses voxels in several files that are not one slice each: other divisions are told in ways that are not written here.
 * @param last the size of the last axis
 */
export function checkSlices(file: string, dataFiles: readonly string[] | null, last: number): void {
  if (dataFiles && dataFiles.length > 1 && dataFiles.length !== last)
    throw notUnderstood(file, 'it has its voxels in several files that are not one slice each');
}

/**
 * The fields that leave, by the test for the value of each.
 * @throws UsageError for numbers that cannot be kept, because readers would take others without them
 */
export const fieldsLeaving = (
  file: string,
  fields: ReadonlyMap<string, string>,
  testOf: (key: string) => ((value: string) => boolean) | undefined,
): [key: string, value: string][] =>
  [...fields].filter(([key, value]) => {
    const test = testOf(key);
    if (test?.(value)) return true;
    if (test === isOfNumbers) throw notUnderstood(file, `the numbers of '${key}' cannot be read`);
    return false;
  });
