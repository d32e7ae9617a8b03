/** What the commands that submit a job share: their flags, and the way from a command line to a job. */

export type { InputsDocument } from './dry-run.js';
export { commandAgain } from './earlier-commands.js';
export { SubmitCommand, type Submitted } from './submit-command.js';
export {
  datasetArgs,
  runFlags,
  sendingFlags,
  showFlag,
  submitFlags,
  volumeArgs,
} from './submit-flags.js';

/** Shows what would be sent. Imported when it is used, to keep start-up fast. */
export const loadShowInputs = () => import('./dry-run.js');
