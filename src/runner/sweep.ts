/**
 * Ends what a runner that was killed has left of a job on this machine. Started with the job directory and the job's id by
 * whoever watches the runner.
 */
import { runFiles } from './protocol.js';
import { terminateStrays } from './terminate.js';

const [, , directory = '', jobId = ''] = process.argv;
if (directory !== '' && jobId !== '') void terminateStrays(jobId, runFiles(directory).workspace);
