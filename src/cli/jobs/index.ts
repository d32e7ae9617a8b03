/** Shared by the commands about jobs: actions on jobs, and how jobs are shown. */
export type { CiteDocument } from './cite.js';
export * from './fetch-result.js';
export { followJob, type LogSummary } from './follow-job.js';
export { defaultInterval, jobArg, optionalJobArg, optionalJobArgs, watchFlags } from './job-flags.js';
export { describeJob, type JobsDocument, selectedJobs } from './job-text.js';
export { type Kept, keptForLong, keptOf, tellKept } from './kept.js';
export { jobsToKill, type KillSummary, killJobs } from './kill-jobs.js';
export { jobsToRemove, type RemovalSummary, removeJobs } from './remove-jobs.js';
export { keepCommand, keptCommand, namedOrLast, type SentCommand } from './sent-jobs.js';
export { jobsToWaitFor, type WaitSummary, waitForJobs } from './wait-jobs.js';
export { watch } from './watch.js';

/** Imported when it is used, to keep start-up fast. */
export const loadCite = () => import('./cite.js');
