/** Many cases as many jobs, each with a record next to its result. */
export { runCohort } from './cohort.js';
export { findCases } from './find-cases.js';
export { JobRecord } from './job-record.js';
export { type CaseRecord, readRecord } from './record.js';
export type { CaseState, CaseStatus, CohortSummary, CohortWatcher } from './state.js';
