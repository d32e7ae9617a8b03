/** Many cases as many jobs, each with a record next to its result. */
export {
  type CaseState,
  type CaseStatus,
  type CohortOptions,
  type CohortSummary,
  type CohortWatcher,
  findCases,
  runCohort,
} from './cohort.js';
export { JobRecord } from './job-record.js';
export { type CaseRecord, readRecord, recordName } from './record.js';
