import type { Target } from '../extract-plan.js';
import { localHeaderSize } from '../local-header.js';

/** Most bytes of an entry, compressed or not, that is small: inflating and writing them takes a moment. */
const smallSize = 256 * 1024;

/** Written in one go, which keeps the event loop for some milliseconds. */
const batchEntries = 128;
const batchBytes = smallSize;
/** Most bytes of the archive that one batch spans. */
export const batchSpan = 1024 * 1024;

/** Bytes by which an entry's local header may be longer than the directory says. */
const headerSlack = 1000;

/** Small entries that lie close to each other in the archive, in its order. */
export interface Batch {
  readonly targets: readonly Target[];
  /** Where they lie in the archive. */
  readonly start: number;
  readonly end: number;
}

/** Whether an entry can be one of a batch. A directory that lies may hold anything in the place of a number. */
export function isSmall({ entry, isDirectory }: Target, maxSize: number): boolean {
  const { uncompressedSize: size, compressedSize, offsetToLocalFileHeader } = entry;
  const isNumbered = [size, compressedSize, offsetToLocalFileHeader].every(Number.isSafeInteger);
  return !isDirectory && isNumbered && size <= Math.min(smallSize, maxSize) && compressedSize <= smallSize;
}

const offsetOf = (target: Target): number => target.entry.offsetToLocalFileHeader;

/** An upper bound: the local header repeats the name, and may have more fields than the directory. */
const endOf = ({ entry }: Target): number =>
  entry.offsetToLocalFileHeader +
  localHeaderSize +
  entry.fileNameLength +
  entry.extraFieldLength +
  headerSlack +
  entry.compressedSize;

/** Parts small entries into batches. In the archive's order, for then each of its bytes is read but once. */
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
