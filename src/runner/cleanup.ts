/**
 * Ends what a killed runner left of its job on this machine; started, for example, by the batch script of a Slurm job. Its
 * arguments are the job directory and the job's id.
 */

import { runFiles } from './protocol.js';
import { terminateStrays } from './terminate.js';

const [, , directory = '', jobId = ''] = process.argv;
if (directory !== '' && jobId !== '') void terminateStrays(jobId, runFiles(directory).workspace);
