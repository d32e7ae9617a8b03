/** Many cases, each run as one job, and the table of what became of them. */

export { numberedCases } from './neutral-numbers.js';
export type { CohortOptions, CohortSummary } from './options.js';
export { runCohort } from './run-cohort.js';
export { type CaseState, type CaseStatus, type CohortWatcher, isOver } from './table.js';
