import {
  FieldError,
  formatBytes,
  type Operation,
  quoteName,
  ServiceError,
  volumeSuffix,
} from '../../contract/index.js';

/* Limits of a submission that no admin sets. They are the same for a form and for JSON. */

/** Maximum number of files. The app's command line names each of them, and Linux limits its length to two mebibytes. */
export const maxFiles = 20_000;
export const maxFields = 1000;
/** Maximum size in bytes of the texts of all fields together. */
const maxTextBytes = 1 << 20;
/** Maximum number of characters in a field's name. The longest name in the operations table has 17. */
const maxFieldName = 200;
/** Maximum number of characters in a file's name, including any directories that a client adds in front. */
const maxFileName = 4096;

/**
 * Bytes that a form may have besides the content of its files: its texts and half a mebibyte, plus more for each part.
 */
const framing = maxTextBytes + (512 << 10);
const framingOfPart = 1 << 10;
/** If files are smaller than this on average, a form near the maximum size may be refused before it is read. */
const averageFile = 4096;

/** Number of bytes that a form with this many parts may have besides the content of its files. */
const framingAllowance = (parts: number): number => framing + parts * framingOfPart;

/** The same for a form with an unknown number of parts, estimated from the maximum total size of its files. */
const framingOfUpload = (maxUploadSize: number): number =>
  framingAllowance(Math.min(maxFiles + maxFields, Math.ceil(maxUploadSize / averageFile)));

export interface SizeLimits {
  /** Maximum size in bytes of one file (docs/http.md, Limits). */
  readonly maxFileSize: number;
  readonly maxUploadSize: number;
}

/** The limits that an admin sets. */
export interface SubmissionSettings extends SizeLimits {
  /**
   * Maximum size in bytes of a data set's archive, and of its extracted content; null if data sets have the limits of other
   * archives.
   */
  readonly maxDatasetSize: number | null;
  /** Whether only de-identified submissions are accepted. */
  readonly requireDeidentified: boolean;
}

/** The limits of one submission. */
export interface SubmissionLimits extends SizeLimits {
  /** Maximum size in bytes of the extracted content of all its archives together. */
  readonly maxExtractedSize: number;
  /** The end of a sentence about a limit: whose it is, or what an admin can do. */
  readonly advice: string;
}

const dataSetAdvice = "; an admin sets it with 'serve --max-dataset-size'";

/** Uploaded archives may extract to this many times the maximum size of an upload. */
const extractionFactor = 10;

/** The limits of an operation; those of a data set may be separate. */
export function limitsOf(
  { maxFileSize, maxUploadSize, maxDatasetSize }: SubmissionSettings,
  { paths }: Operation,
): SubmissionLimits {
  const advice = paths === 'dataSet' ? dataSetAdvice : '';
  if (maxDatasetSize === null || advice === '') {
    return { maxFileSize, maxUploadSize, maxExtractedSize: maxUploadSize * extractionFactor, advice };
  }
  // A submission with a data set has no other file.
  return {
    maxFileSize: maxDatasetSize,
    maxUploadSize: maxDatasetSize,
    maxExtractedSize: maxDatasetSize,
    advice,
  };
}

/**
 * The limits of a submission whose sender has a lower upload limit.
 * @param bytes null if there is no such limit
 * @param advice the end of a sentence about the limit: whose it is
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

const tooLarge = ({ maxUploadSize, advice }: SubmissionLimits) =>
  new ServiceError(
    'uploadTooLarge',
    `The upload is larger than the limit of ${formatBytes(maxUploadSize)}${advice}`,
  );

const tooMany = (what: string, max: number, advice: string) =>
  new ServiceError('uploadTooLarge', `The submission has more than ${max} ${what}; ${advice}`);

/** Counts what a submission contains as it arrives. Each method throws a ServiceError 413 or 422 if a limit is exceeded. */
export class SubmissionQuota {
  #fields = 0;
  #textBytes = 0;
  #files = 0;
  #content = 0;

  constructor(private readonly limits: SubmissionLimits) {}

  addField(name: string): void {
    this.#fields += 1;
    if (this.#fields > maxFields) throw tooMany('fields', maxFields, 'send each once');
    this.#checkFieldName(name);
  }

  addText(bytes: number): void {
    this.#textBytes += bytes;
    if (this.#textBytes <= maxTextBytes) return;
    throw new ServiceError(
      'uploadTooLarge',
      `The texts of the submission are longer than ${maxTextBytes} bytes; send long content as a file`,
    );
  }

  addFile(field: string, name: string): void {
    this.#files += 1;
    if (this.#files > maxFiles) {
      throw tooMany('files', maxFiles, `send them as one archive named '<name>${volumeSuffix}'`);
    }
    this.#checkFieldName(field);
    if (name.length > maxFileName) {
      throw new FieldError(field, `has a file whose name is too long: ${quoteName(name)}`);
    }
  }

  /** @param fileSize bytes of the file so far, including these */
  addContent(bytes: number, fileSize: number, file: string): void {
    this.#content += bytes;
    this.checkFile(fileSize, file);
    if (this.#content > this.limits.maxUploadSize) throw tooLarge(this.limits);
  }

  /** @param size bytes that the file has or will have */
  checkFile(size: number, file: string): void {
    const { maxFileSize, advice } = this.limits;
    if (size <= maxFileSize) return;
    const detail = `File ${quoteName(file)} is larger than the limit of ${formatBytes(maxFileSize)}${advice}`;
    throw new ServiceError('fileTooLarge', detail);
  }

  /**
   * Limits the whole request, including part headers and any bytes before the first and after the last part.
   * @param received bytes of the body so far
   */
  checkRequest(received: number, parts: number): void {
    if (received > this.limits.maxUploadSize + framingAllowance(parts)) throw tooLarge(this.limits);
  }

  #checkFieldName(name: string): void {
    if (name.length > maxFieldName)
      throw new FieldError(name, `has a name of more than ${maxFieldName} characters`);
  }
}

/** Refuses a request by its `Content-Length`, before its body is read. @throws ServiceError 413 */
export function checkStated(bytes: number, limits: SubmissionLimits): void {
  if (bytes > limits.maxUploadSize + framingOfUpload(limits.maxUploadSize)) throw tooLarge(limits);
}
