/** What the commands that submit a job share: their flags, and the way from a command line to a job. */
export type { InputsDocument } from './show-inputs.js';
export {
  datasetArgs,
  runFlags,
  SubmitCommand,
  type Submitted,
  sendingFlags,
  submitFlags,
  volumeArgs,
} from './submit-command.js';
export { commandAgain } from './submitted.js';

/** Shows what would be sent. Imported when it is used, to keep start-up fast. */
export const loadShowInputs = () => import('./show-inputs.js');
