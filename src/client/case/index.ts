/** One case: from files on this machine to its result on this machine, with the record of what made it. */
export { causeOf } from './failures.js';
export {
  type CaseRecord,
  type Computation,
  computationOf,
  digestOf,
  hashInputs,
  inputPaths,
  keyOf,
  namesBelow,
  type RecordedInput,
  readRecord,
  type ServerFacts,
  stampOf,
} from './record.js';
export { recordResult, serverFacts } from './recorder.js';
export { askPatiently, runCase } from './run-case.js';
export { type FinishedJob, runJob, type StartedJob, startJob } from './run-job.js';
