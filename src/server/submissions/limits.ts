import { formatBytes, maxEntries, type Operation, quoteName, ServiceError } from '../../contract/index.js';
import { Turns } from '../../files/index.js';
import { diskSpace, type MakeRoom, noSpace, withSpace } from './disk-space.js';

/* Bounds of a form besides those of its files, which `serve` has flags for. */

/** Most files in a form. The app's command line names each of them, and Linux limits it to two mebibytes. */
export const maxFiles = 20_000;
export const maxFields = 1000;
/** Bytes of the texts of all fields together. */
export const maxFieldBytes = 1 << 20;

/** Most bytes of a field's name. The longest name in the operations table has 17. */
export const maxFieldName = 200;
/** Most bytes of a file's name, including the directories that a client may put in front. */
export const maxFileName = 4096;

/**
 * Bytes that a form may have besides the content of its files: its texts and half a mebibyte, plus more for each part.
 */
const framing = maxFieldBytes + (512 << 10);
const framingOfPart = 1 << 10;
/** If files have on average more bytes than this, a form of the largest size is refused only after it was read. */
const averageFile = 4096;

/** Bytes that a form with this many parts may have besides the content of its files. */
export const framingAllowance = (parts: number): number => framing + parts * framingOfPart;

/** The same for a form with an unknown number of parts, based on the largest total size of its files. */
export const framingOfUpload = (maxUploadSize: number): number =>
  framingAllowance(Math.min(maxFiles + maxFields, Math.ceil(maxUploadSize / averageFile)));

/** What all uploads of a server take turns at, because its threads and its memory are few. */
export class UploadTurns {
  readonly largeArchives = new Turns(1);
  /** Whether an upload syncs its files while they arrive. */
  isSyncing = false;
}

export interface UploadLimits {
  /** Bytes (docs/http.md, Limits). */
  readonly maxFileSize: number;
  readonly maxUploadSize: number;
}

/** The limits that an admin sets. */
export interface UploadSettings extends UploadLimits {
  /** Bytes of the archive of a data set, and of its extracted content; null for the limits of any other archive. */
  readonly maxDatasetSize: number | null;
  /** Whether only submissions are taken that are de-identified. */
  readonly requireDeidentified: boolean;
}

/** The limits of one submission. */
export interface SubmissionLimits extends UploadLimits {
  /** Most bytes of the content extracted from all its archives together. */
  readonly maxExtractedSize: number;
  /** The end of a sentence about a limit: what an admin can do. */
  readonly advice: string;
}

const dataSetAdvice = "; an admin sets it with 'serve --max-dataset-size'";

/** Uploaded archives may extract to this many times the size of the largest upload. */
const extractionFactor = 10;

/** The limits of an operation: a data set may have one of its own. */
export function limitsOf(
  { maxFileSize, maxUploadSize, maxDatasetSize }: UploadSettings,
  { fields }: Operation,
): SubmissionLimits {
  const advice = fields.some(({ kind }) => kind === 'archive') ? dataSetAdvice : '';
  if (maxDatasetSize === null || advice === '') {
    return { maxFileSize, maxUploadSize, maxExtractedSize: maxUploadSize * extractionFactor, advice };
  }
  // Such a submission has no other file.
  return {
    maxFileSize: maxDatasetSize,
    maxUploadSize: maxDatasetSize,
    maxExtractedSize: maxDatasetSize,
    advice,
  };
}

/**
 * The limits of a submission by somebody with a smaller upload limit.
 * @param bytes null if there is no such limit
 * @param advice the end of a sentence about it: whose limit it is
 */
export function within(
  limits: SubmissionLimits,
  { bytes, advice }: { readonly bytes: number | null; readonly advice: string },
): SubmissionLimits {
  if (bytes === null || bytes >= limits.maxUploadSize) return limits;
  return {
    ...limits,
    maxUploadSize: bytes,
    maxFileSize: Math.min(limits.maxFileSize, bytes),
    advice,
  };
}

/** Limits on the extracted content of uploaded archives. */
export const extractionLimits = ({ maxExtractedSize, advice }: SubmissionLimits) => ({
  maxBytes: maxExtractedSize,
  maxEntries,
  advice,
});

const tooLarge = ({ maxUploadSize, advice }: SubmissionLimits) =>
  new ServiceError(
    'uploadTooLarge',
    `The upload is larger than the limit of ${formatBytes(maxUploadSize)}${advice}`,
  );

/** Counts the bytes of one upload as they arrive: of each file, of all files, and of the whole request. */
export class UploadQuota {
  #total = 0;

  constructor(private readonly limits: SubmissionLimits) {}

  /** @throws ServiceError 413 for a file or an upload that has grown too large */
  takeFile(bytes: number, fileSize: number, label: string): void {
    this.#total += bytes;
    this.checkFile(fileSize, label);
    if (this.#total > this.limits.maxUploadSize) throw tooLarge(this.limits);
  }

  /** @throws ServiceError 413 for a file that has, or will have, too many bytes */
  checkFile(size: number, label: string): void {
    const { maxFileSize, advice } = this.limits;
    if (size <= maxFileSize) return;
    const detail = `File ${quoteName(label)} is larger than the limit of ${formatBytes(maxFileSize)}${advice}`;
    throw new ServiceError('fileTooLarge', detail);
  }

  /**
   * Limits the whole request, including part headers and any bytes before the first and after the last part.
   * @param received bytes of the body so far
   * @throws ServiceError 413
   */
  checkRequest(received: number, parts: number): void {
    if (received > this.limits.maxUploadSize + framingAllowance(parts)) throw tooLarge(this.limits);
  }
}

/**
 * Refuses an upload that is too large by its `Content-Length`, or does not fit on the disk, before its body is read.
 * @param contentLength bytes; undefined if the request has no such header
 */
export async function checkSpace(
  contentLength: number | undefined,
  directory: string,
  limits: SubmissionLimits,
  makeRoom: MakeRoom,
): Promise<void> {
  const stated = contentLength ?? 0;
  if (stated > limits.maxUploadSize + framingOfUpload(limits.maxUploadSize)) throw tooLarge(limits);
  await checkFits(stated, directory, makeRoom);
}

/** @throws ServiceError 507 for an upload of so many bytes that does not fit on the disk */
export const checkFits = (bytes: number, directory: string, makeRoom: MakeRoom): Promise<void> =>
  withSpace(makeRoom, () => {
    const space = diskSpace(directory);
    if (space.bytes < bytes || space.files < 0) throw noSpace(space, `an upload of ${formatBytes(bytes)}`);
  });
