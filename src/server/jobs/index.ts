/** Owns all state of jobs. Knows neither HTTP nor where jobs run. */

export { outputFault } from './disk-use.js';
export type { Job } from './job.js';
export { appVariables, type JobDirectory, readRefusal, refusalVariables } from './job-directory.js';
export type { JobFiles, JobRequest } from './job-record.js';
export type { LinkedInput } from './linked-input.js';
export { countLines, openLog, readLog, StreamSlots } from './log.js';
export { JobService } from './service.js';
