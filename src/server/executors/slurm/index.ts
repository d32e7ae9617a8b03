/** Runs jobs on the nodes of a Slurm cluster. */
export type { SlurmOptions } from './slurm.js';
export { type ClusterReport, lookAtSlurm, openSlurm } from './slurm-executor.js';
