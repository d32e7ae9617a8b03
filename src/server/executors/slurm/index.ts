/** Runs jobs on the nodes of a Slurm cluster. */
export type { SlurmOptions } from './slurm.js';
export {
  type ClusterReport,
  lookAtSlurm,
  type OpenSlurmSettings,
  openSlurm,
} from './slurm-executor.js';
