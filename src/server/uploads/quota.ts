import { maxEntries } from '../../contract/archives.js';
import { formatBytes } from '../../contract/bytes.js';
import { ServiceError } from '../../contract/errors.js';
import { quoteName } from '../../contract/quote.js';
import { diskRoom, noRoom } from './disk-room.js';
import { framingAllowance, framingOfUpload } from './form-limits.js';

export interface UploadLimits {
  /** Bytes (spec.md, Limits). */
  readonly maxFileSize: number;
  readonly maxUploadSize: number;
}

/** Archives that are uploaded may extract to this many times the largest upload. */
const extractionFactor = 10;

/** Bounds of what an uploaded archive extracts to. */
export const extractionLimits = (limits: UploadLimits) => ({
  maxBytes: limits.maxUploadSize * extractionFactor,
  maxEntries,
});

const tooLarge = (limits: UploadLimits) =>
  new ServiceError(
    'uploadTooLarge',
    `The upload is larger than the limit of ${formatBytes(limits.maxUploadSize)}`,
  );

/** Counts the bytes of one upload while they arrive: of each file, of all files, and of the whole request. */
export class UploadQuota {
  #total = 0;

  constructor(private readonly limits: UploadLimits) {}

  /** @throws ServiceError 413 for a file or an upload that has grown too large */
  takeFile(bytes: number, fileSize: number, label: string): void {
    this.#total += bytes;
    const { maxFileSize, maxUploadSize } = this.limits;
    if (fileSize > maxFileSize) {
      const detail = `File ${quoteName(label)} is larger than the limit of ${formatBytes(maxFileSize)}`;
      throw new ServiceError('fileTooLarge', detail);
    }
    if (this.#total > maxUploadSize) throw tooLarge(this.limits);
  }

  /**
   * Limits the whole request, including the headers of parts and any bytes before the first and after the last part.
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
export async function checkRoom(
  contentLength: number | undefined,
  directory: string,
  limits: UploadLimits,
): Promise<void> {
  const stated = contentLength ?? 0;
  if (stated > limits.maxUploadSize + framingOfUpload(limits.maxUploadSize)) throw tooLarge(limits);
  const room = await diskRoom(directory);
  if (room.bytes < stated || room.files < 0) throw noRoom(room, `an upload of ${formatBytes(stated)}`);
}
