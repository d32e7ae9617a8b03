/** One case: from files on this machine to its result on this machine, with the record of what made it. */

export { completeResult } from './complete-result.js';
export {
  areInputsUntouched,
  areUntouched,
  inputStampToRecord,
  stampOfInputs,
  stampToRecord,
} from './file-times.js';
export * from './imaging.js';
export { serverFacts } from './input-reader.js';
export { unlessInterrupted } from './interruption.js';
export type { JobOptions } from './job-options.js';
export { readFacts, readNames } from './kept-facts.js';
export {
  type CaseRecord,
  type Computation,
  computationOf,
  devicesOf,
  digestOf,
  hashInputs,
  keyOf,
  namesBelow,
  type RecordedInput,
  readRecord,
  type ServerFacts,
  withNames,
  writeRecord,
} from './record.js';
export { type AcceptedJob, type FinishedJob, finishJob, receiveResult, sendJob } from './run-job.js';
