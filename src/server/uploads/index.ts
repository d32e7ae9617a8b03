/** Uploads with the tus protocol, which are named by their content and belong to one owner, and the disk space for them. */
export { DiskSpace, type Reservation, writeFault } from './disk-space.js';
export { FileWriter } from './file-writer.js';
export type { OwnedUploads } from './owned-uploads.js';
export type { Checksum, Upload } from './upload.js';
export { UploadStore } from './upload-store.js';
