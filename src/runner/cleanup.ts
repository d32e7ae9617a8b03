/**
 * Ends what a killed runner has left of its job on this machine. Its arguments are the job directory and the job's id;
 * for example, the batch script of a Slurm job starts it.
 */

import { runFiles } from './protocol.js';
import { terminateStrays } from './terminate.js';

const [, , directory = '', jobId = ''] = process.argv;
if (directory !== '' && jobId !== '') void terminateStrays(jobId, runFiles(directory).workspace);
