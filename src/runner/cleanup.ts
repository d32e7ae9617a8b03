/**
 * Ends what a killed runner has left of its job on this machine. Started with the job directory and the job's id, for example
 * by the batch script of a Slurm job.
 */

import { runFiles } from './protocol.js';
import { terminateStrays } from './terminate.js';

const [, , directory = '', jobId = ''] = process.argv;
if (directory !== '' && jobId !== '') void terminateStrays(jobId, runFiles(directory).workspace);
