/** One case: from files on this machine to its result on this machine, with a record of how it was made. */

export { completeResult, devicesOf, type ServerFacts, serverFacts } from './complete-result.js';
export { computationOf, digestOf, keyOf } from './computation.js';
export {
  areInputsUntouched,
  areUntouched,
  inputStampToRecord,
  stampOfInputs,
  stampToRecord,
} from './file-times.js';
export * from './imaging.js';
export { unlessInterrupted } from './interruption.js';
export type { JobOptions } from './job-options.js';
export { readNames, readSentCase } from './kept-facts.js';
export {
  type CaseRecord,
  type Computation,
  type Conversion,
  hashInputs,
  namesBelow,
  type RecordedInput,
  readRecord,
  withNames,
  writeRecord,
} from './record.js';
export { type AcceptedJob, type FinishedJob, finishJob, receiveResult, sendJob } from './run-job.js';
