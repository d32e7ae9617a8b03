/** Turns a multipart body into the files of a job. */
export { checkClaim, checkIdentities } from './identities.js';
export {
  checkSpace,
  limitsOf,
  type SubmissionLimits,
  type UploadLimits,
  type UploadSettings,
  UploadTurns,
  within,
} from './limits.js';
export { placeFiles } from './place-files.js';
export { EarlyChecks, type FormFields, isDeidentified, readForm, type SubmissionForm } from './read-form.js';
export { receiveForm } from './receive.js';
