import { formatBytes } from '../../../contract/bytes.js';
import { quotePath } from '../../../contract/quote.js';
import type { LimitsAnswer } from '../../connection/index.js';
import { UsageError } from '../../errors.js';

/** A file that will be sent. */
export interface SizedSource {
  /** The path that a person gave or that was found below it; for an archive the directory that is in it. */
  readonly source: string;
  /** Bytes as they are sent: of the archive for a directory; 0 while it is not packed yet. */
  size: number;
  /** Bytes that a data set has before it is packed, as far as they are known; absent for any other file. */
  readonly extracted?: number;
}

/** Checks the sizes of the files of a submission, as far as they are known. */
export type SizeCheck = (files: readonly SizedSource[]) => void;

/** Two sizes in words that tell them apart. */
function inWords(size: number, most: number): [string, string] {
  const words: [string, string] = [formatBytes(size), formatBytes(most)];
  return words[0] === words[1] ? [`${size} bytes`, `${most} bytes`] : words;
}

/** Checks a data set against the limit that a server has for data sets. */
function checkDataSet({ source, size, extracted = 0 }: SizedSource, most: number, server: string): void {
  const largest = Math.max(size, extracted);
  if (largest <= most) return;
  const [found, allowed] = inWords(largest, most);
  throw new UsageError(
    `The data set ${quotePath(source)} has ${found}, and ${server} takes data sets of at most ${allowed}`,
  );
}

/**
 * Checks files against the limits of a server.
 * @throws UsageError naming the file, or for all of them together
 */
export function checkSizes(files: readonly SizedSource[], limits: LimitsAnswer, server: string): void {
  const { max_file_size: mostOfFile, max_upload_size: mostOfAll, max_dataset_size: mostOfSet } = limits;
  const dataSet = files.find(({ extracted }) => extracted !== undefined);
  if (dataSet && mostOfSet !== null) {
    // A data set is sent alone.
    checkDataSet(dataSet, mostOfSet, server);
    return;
  }
  const large = mostOfFile === null ? undefined : files.find(({ size }) => size > mostOfFile);
  if (large && mostOfFile !== null) {
    const [size, most] = inWords(large.size, mostOfFile);
    throw new UsageError(
      `${quotePath(large.source)} takes ${size} to send, and ${server} takes files of at most ${most}`,
    );
  }
  const all = files.reduce((sum, { size }) => sum + size, 0);
  if (mostOfAll !== null && all > mostOfAll) {
    const [size, most] = inWords(all, mostOfAll);
    throw new UsageError(
      `These inputs take ${size} to send, and ${server} takes at most ${most} at once; send them in several jobs`,
    );
  }
}
