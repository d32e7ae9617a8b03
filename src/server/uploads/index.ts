/** What clients send by tus: uploads that are named by their content and belong to one owner. And the space on their disk. */
export { DiskSpace, type Reservation, writeFault } from './disk-space.js';
export { FileWriter } from './file-writer.js';
export type { OwnedUploads } from './owned-uploads.js';
export type { Checksum, Upload } from './upload.js';
export { UploadStore } from './upload-store.js';
