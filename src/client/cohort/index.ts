/** Many cases, each run as one job, and the table of what became of them. */
export { runCohort } from './cohort.js';
export { findCasesToSend } from './find-cases.js';
export type { LayoutName } from './layout.js';
export { numberedCases } from './neutral-numbers.js';
export { type CaseState, type CaseStatus, type CohortSummary, type CohortWatcher, isOver } from './state.js';
