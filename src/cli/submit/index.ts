/** Shared by the commands that submit a job: their flags, and everything from parsing a command line to running a job. */

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

/** Shows what would be sent. Imported on use, to keep start-up fast. */
export const loadShowInputs = () => import('./dry-run.js');
