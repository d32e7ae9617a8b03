/** Many cases, each run as one job, and the table of their outcomes. */

export type { CohortOptions } from './case-run.js';
export type { CohortSummary } from './cohort.js';
export { numberedCases } from './neutral-numbers.js';
export { runCohort } from './run-cohort.js';
export { type CaseState, type CaseStatus, type CohortWatcher, isOver } from './table.js';
