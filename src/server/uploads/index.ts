/** Uploads that are named by their content, and belong to one owner, until submissions name them. */
export type { Checksum } from './appender.js';
export type { HeldUploads, OwnedUploads } from './owned-uploads.js';
export type { Upload } from './upload.js';
export { UploadStore } from './upload-store.js';
