/** Turns a multipart body into the files of a job. */
export { DiskWatch, uploadFault } from './disk-space.js';
export { checkClaim, checkIdentities } from './identities.js';
export {
  checkFits,
  checkSpace,
  limitsOf,
  type SubmissionLimits,
  type UploadLimits,
  type UploadSettings,
  UploadTurns,
  within,
} from './limits.js';
export { placeFiles } from './place-files.js';
export {
  EarlyChecks,
  type FormFields,
  isDeidentified,
  readForm,
  type SubmissionForm,
} from './read-form.js';
export { askForBody, receiveForm, type UploadContext, wholeRequest } from './receive.js';
export { receiveJson } from './receive-json.js';
export { dropWritten, SyncBehind } from './uploaded-file.js';
