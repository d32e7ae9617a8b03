/** Bounds of a form beside those of its files, which `serve` has flags for. */

/** Files of a form. The app's command line names each of them, and Linux limits it to two mebibytes. */
export const maxFiles = 20_000;
export const maxFields = 1000;
/** Bytes of the texts of all fields together. */
export const maxFieldBytes = 1 << 20;

/** Bytes of the headers of one part. A file name has at most 255; the rest is for what odd clients add. */
export const maxPartHeaderBytes = 16 << 10;
/** Headers of one part. */
export const maxPartHeaders = 32;
/** Bytes of a field's name. The longest name of an operation's field has 17. */
export const maxFieldName = 200;
/** Bytes of a file's name with the directories that a client may put before it. */
export const maxFileName = 4096;
/** Longest boundary (RFC 2046, 5.1.1). */
export const maxBoundary = 70;

/** Bytes that a form may have beside the contents of its files: its texts and half a mebibyte; more for each part. */
const framing = maxFieldBytes + (512 << 10);
const framingOfPart = 1 << 10;
/** Bytes of a file, on average, from which on a form of the largest size is refused only once it is read. */
const averageFile = 4096;

/** Bytes that a form of so many parts may have beside the contents of its files. */
export const framingAllowance = (parts: number): number => framing + parts * framingOfPart;

/** The same for a form whose number of parts is not known yet, by the largest size of all its files. */
export const framingOfUpload = (maxUploadSize: number): number =>
  framingAllowance(Math.min(maxFiles + maxFields, Math.ceil(maxUploadSize / averageFile)));

/** Least bytes of a part that is a file: its boundary, and a header with the names of its field and its file. */
const leastFilePart = 40;

/** Files that a form of so many bytes has at most. */
export const mostFilesIn = (bytes: number): number => Math.ceil(bytes / leastFilePart);
