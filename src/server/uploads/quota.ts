import { statfs } from 'node:fs/promises';
import { formatBytes } from '../../contract/bytes.js';
import { ServiceError } from '../../contract/errors.js';

export interface UploadLimits {
  /** Bytes (spec.md, Limits). */
  readonly maxFileSize: number;
  readonly maxUploadSize: number;
}

/** What the parts' headers and the boundaries may add to the files of an upload, in bytes. */
const framing = 1 << 20;
/** Room that is left on the disk beside an upload, in bytes: for logs and records. */
const headroom = 16 << 20;

/** Archives that are uploaded may extract to this many times the largest upload. */
const extractionFactor = 10;
/** Entries of an uploaded archive. */
const maxEntries = 200_000;

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

/** Counts the bytes of one upload while they arrive. */
export class UploadQuota {
  #total = 0;

  constructor(private readonly limits: UploadLimits) {}

  /** Counts a piece; returns the error of a file or an upload that has grown too large. */
  take(bytes: number, fileSize: number, label: string): ServiceError | null {
    this.#total += bytes;
    const { maxFileSize, maxUploadSize } = this.limits;
    if (fileSize > maxFileSize) {
      const detail = `File '${label}' is larger than the limit of ${formatBytes(maxFileSize)}`;
      return new ServiceError('fileTooLarge', detail);
    }
    return this.#total > maxUploadSize ? tooLarge(this.limits) : null;
  }
}

/**
 * Refuses, before a byte of it is read, an upload that is stated to be too large or that the disk cannot hold.
 * @param contentLength bytes; undefined for an upload that does not tell
 */
export async function checkRoom(
  contentLength: number | undefined,
  directory: string,
  limits: UploadLimits,
): Promise<void> {
  const stated = contentLength ?? 0;
  if (stated > limits.maxUploadSize + framing) throw tooLarge(limits);
  const { bavail, bsize } = await statfs(directory);
  if (bavail * bsize < stated + headroom) {
    const free = formatBytes(bavail * bsize);
    throw new ServiceError(
      'diskFull',
      `The server's disk has ${free} free, too little for an upload of ${formatBytes(stated)}; try again later`,
    );
  }
}
