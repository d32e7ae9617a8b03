/** What the commands that submit a job share: their flags, and the way from a command line to a job. */
export {
  datasetArgs,
  runFlags,
  SubmitCommand,
  type Submitted,
  submitFlags,
  volumeArgs,
} from './submit-command.js';
export { commandAgain } from './submitted.js';
