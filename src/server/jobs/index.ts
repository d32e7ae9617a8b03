/** Owns all state of jobs. Knows neither HTTP nor where jobs run. */

export type { Slot } from './admission.js';
export { outputFault } from './disk-use.js';
export { Job } from './job.js';
export { appVariables, type JobDirectory, readRefusal, refusalVariables } from './job-directory.js';
export type { JobFiles, JobRequest } from './job-record.js';
export { countLines, openLog, readLog, StreamSlots } from './log.js';
export { uploadsFull } from './owners.js';
export { JobService } from './service.js';
