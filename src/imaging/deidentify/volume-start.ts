import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';

/** How voxels are packed. */
export type Packing = 'gzip' | 'zlib';

/** A rewritten header, and where its voxels are. */
export interface VolumeStart {
  /** Names of the fields kept and removed, never values. */
  readonly kept: readonly string[];
  readonly removed: readonly string[];
  /** The voxel files that the header names; empty if their names follow from its own, null if the voxels follow the header. */
  readonly dataFiles: readonly string[] | null;
  /** Offset of the packed data in the file that contains it. */
  readonly from: number;
  /** Bytes before the voxels in each voxel file, unpacked; null if the voxels are at its end. */
  readonly before: number | null;
  /** Bytes of all voxels, unpacked. */
  readonly voxels: number;
  /** Data after the voxels that is also sent: its maximum number of bytes, and how the bytes present are rewritten. */
  readonly behind?: { readonly bytes: number; readonly encode: (bytes: Buffer) => Buffer };
  /** How the voxels are packed in their file; null if they are not, or if the whole file is. */
  readonly packing: Packing | null;
  /**
   * Encodes the header.
   * @param names the names under which the voxel files are sent
   * @param packed bytes of the repacked voxels after the header
   */
  encode(names: readonly string[], packed: number | null): Buffer;
}

/** The error for a file whose format is not understood well enough to remove identifying data. */
export const notUnderstood = (file: string, why: string): UsageError =>
  new UsageError(
    `${quotePath(file)} cannot be de-identified: ${why}. ` +
      'Give --deidentify=names to send it as it is under a neutral name, or --no-deidentify to send it as it is',
  );

/** Returns a test for a pattern. */
export const oneOf = (pattern: RegExp) => (text: string) => pattern.test(text);

/** Whether a text consists only of numbers and the characters between them. */
export const isOfNumbers = (text: string): boolean => /^(none|nan|[-+\d.eE\s(),])+$/i.test(text);

/**
 * Refuses voxels split over several files unless each file holds one slice: headers describe other divisions in ways that are not
 * supported.
 * @param last the size of the last axis
 */
export function checkSlices(file: string, dataFiles: readonly string[] | null, last: number): void {
  if (dataFiles && dataFiles.length > 1 && dataFiles.length !== last)
    throw notUnderstood(file, 'it has its voxels in several files that are not one slice each');
}

/**
 * The fields whose values pass their test.
 * @throws UsageError for numbers that cannot be kept, because readers would assume others without them
 */
export const keptFields = (
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
