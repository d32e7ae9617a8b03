/** Many cases, each run as one job, and the table of what became of them. */

export type { LayoutName } from './bids-layout.js';
export { runCohort } from './cohort.js';
export { findCasesToSend } from './find-cases.js';
export { numberedCases } from './neutral-numbers.js';
export { type CaseState, type CaseStatus, type CohortSummary, type CohortWatcher, isOver } from './state.js';
