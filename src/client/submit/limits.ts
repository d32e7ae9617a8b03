import {
  type FieldRole,
  fieldWithRole,
  flagName,
  formatBytes,
  type Operation,
  quotePath,
  spellDuration,
} from '../../contract/index.js';
import type { LimitsAnswer } from '../connection/index.js';
import { UsageError } from '../errors.js';
import type { Submission } from '../submission.js';

/** A file to be sent. */
export interface SizedSource {
  /** The path that the user gave, or that was found below it; for an archive, the directory that it contains. */
  readonly source: string;
  /** Size in bytes as sent: for a directory, the size of its archive, or 0 before it is packed. */
  size: number;
  /** Known size of a data set in bytes before it is packed; absent for any other file. */
  readonly extracted?: number;
}

/** Two sizes, formatted so that they differ. */
function inWords(size: number, max: number): [string, string] {
  const words: [string, string] = [formatBytes(size), formatBytes(max)];
  return words[0] === words[1] ? [`${size} bytes`, `${max} bytes`] : words;
}

/** Checks a data set against the limit that a server has for data sets. */
function checkDataSet({ source, size, extracted = 0 }: SizedSource, max: number, server: string): void {
  const largest = Math.max(size, extracted);
  if (largest <= max) return;
  const [found, allowed] = inWords(largest, max);
  throw new UsageError(
    `The data set ${quotePath(source)} has ${found}, and ${server} takes data sets of at most ${allowed}`,
  );
}

/**
 * Checks files against the limits of a server.
 * @throws UsageError for a file that is too large, which it names, or for all files together
 */
export function checkSizes(files: readonly SizedSource[], limits: LimitsAnswer, server: string): void {
  const {
    max_file_size: maxFileSize,
    max_upload_size: maxUploadSize,
    max_dataset_size: maxDatasetSize,
  } = limits;
  const dataSet = files.find(({ extracted }) => extracted !== undefined);
  if (dataSet && maxDatasetSize !== null) {
    // A data set is always sent alone.
    checkDataSet(dataSet, maxDatasetSize, server);
    return;
  }
  const large = maxFileSize === null ? undefined : files.find(({ size }) => size > maxFileSize);
  if (large && maxFileSize !== null) {
    const [size, max] = inWords(large.size, maxFileSize);
    throw new UsageError(
      `${quotePath(large.source)} takes ${size} to send, and ${server} takes files of at most ${max}`,
    );
  }
  const all = files.reduce((sum, { size }) => sum + size, 0);
  if (maxUploadSize !== null && all > maxUploadSize) {
    const [size, max] = inWords(all, maxUploadSize);
    throw new UsageError(
      `These inputs take ${size} to send, and ${server} takes at most ${max} at once; send them in several jobs`,
    );
  }
}

type FormValues = Pick<Submission, 'operation' | 'fields'>;

/**
 * @param max null if the server does not say, or has no limit
 * @throws UsageError for a longer time
 */
function checkTime(
  { operation, fields }: FormValues,
  role: FieldRole,
  max: number | null,
  rule: string,
): void {
  const field = fieldWithRole(operation, role);
  // NaN if no time is given, or the maximum is requested by name.
  const asked = Number(fields[field.name]);
  if (max === null || !(asked > max)) return;
  throw new UsageError(
    `--${flagName(field)} ${spellDuration(asked)} is too long: ${rule} at most ${spellDuration(max)}`,
  );
}

/**
 * Checks for how long a job asks to be kept, and to run.
 * @throws UsageError for longer than the server allows
 */
export function checkTimes(submission: FormValues, limits: LimitsAnswer, server: string): void {
  checkTime(submission, 'keep', limits.max_keep, `${server} keeps a job for`);
  const maxTime = limits[submission.operation.timeLimit];
  checkTime(submission, 'timeLimit', maxTime, `on ${server} a job may run for`);
}

/** Seconds that a job is kept after its end by default: a laptop may be closed overnight. */
const day = 86_400;
/** Seconds that a command needs to request the result after reaching its server again. */
const margin = 60;

/**
 * The field that asks the server to keep a job for a day or, if longer, for as long as the command would wait for an unreachable
 * server. Empty if the server does not report the maximum time it keeps a job, because it may not know the field.
 * @param longestOutage in seconds
 */
export function keptForADay(
  operation: Operation,
  longestOutage: number,
  { max_keep: max }: LimitsAnswer,
): Readonly<Record<string, string>> {
  if (max === null) return {};
  const wanted = Math.max(day, Math.ceil(longestOutage) + margin);
  return { [fieldWithRole(operation, 'keep').name]: String(Math.min(wanted, max)) };
}
