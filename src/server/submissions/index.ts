/** Turns a submission, as a form or as JSON, into the files of a job. */
export { checkClaim, checkIdentities, checkIdentity } from './identities.js';
export {
  checkStated,
  limitsOf,
  type SubmissionSettings,
  within,
} from './limits.js';
export { placeFiles } from './place-files.js';
export {
  EarlyChecks,
  type FormFields,
  isDeidentified,
  type ReceivedForm,
  readForm,
  type SubmissionForm,
} from './read-form.js';
export { receiveForm } from './receive-form.js';
export { NamedUploads, readJson } from './receive-json.js';
