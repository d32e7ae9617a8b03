import { localHeaderSize } from '../entry-content.js';
import type { Target } from '../extract-plan.js';

/** Most bytes of a small entry, compressed or not. */
const smallSize = 256 * 1024;

/** Most entries and bytes of a batch, which is written without a pause: it blocks the event loop for some milliseconds. */
const batchEntries = 128;
const batchBytes = smallSize;
/** Most bytes of the archive that one batch spans. */
export const batchSpan = 1024 * 1024;

/** Bytes by which an entry's local header may be longer than the central directory says. */
const headerSlack = 1000;

/** Small entries that lie close to each other in the archive, in its order. */
export interface Batch {
  readonly targets: readonly Target[];
  /** Where they lie in the archive. */
  readonly start: number;
  readonly end: number;
}

/** Whether an entry can be part of a batch. A damaged central directory may state numbers that are not safe integers. */
export function isSmall({ entry, isDirectory }: Target, maxSize: number): boolean {
  const { uncompressedSize: size, compressedSize, offsetToLocalFileHeader } = entry;
  const isNumbered = [size, compressedSize, offsetToLocalFileHeader].every(Number.isSafeInteger);
  return !isDirectory && isNumbered && size <= Math.min(smallSize, maxSize) && compressedSize <= smallSize;
}

const offsetOf = (target: Target): number => target.entry.offsetToLocalFileHeader;

/** An upper bound of an entry's end: its local header repeats the name, and may have more extra fields. */
const endOf = ({ entry }: Target): number =>
  entry.offsetToLocalFileHeader +
  localHeaderSize +
  entry.fileNameLength +
  entry.extraFieldLength +
  headerSlack +
  entry.compressedSize;

/** Divides small entries into batches, in the order of the archive, so that each byte of it is read once. */
export function* batchesOf(small: readonly Target[]): Generator<Batch> {
  let targets: Target[] = [];
  let start = 0;
  let end = 0;
  let bytes = 0;
  for (const target of small.toSorted((a, b) => offsetOf(a) - offsetOf(b))) {
    const size = target.entry.uncompressedSize;
    const isFull =
      targets.length >= batchEntries || bytes + size > batchBytes || endOf(target) - start > batchSpan;
    if (targets.length > 0 && isFull) {
      yield { targets, start, end };
      targets = [];
    }
    if (targets.length === 0) {
      start = offsetOf(target);
      end = start;
      bytes = 0;
    }
    targets.push(target);
    end = Math.max(end, endOf(target));
    bytes += size;
  }
  if (targets.length > 0) yield { targets, start, end };
}
