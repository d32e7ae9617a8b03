/** Runs jobs on the nodes of a Slurm cluster. */
export {
  type ClusterReport,
  lookAtSlurm,
  type OpenSlurmSettings,
  openSlurm,
} from './open-slurm.js';
export type { SlurmOptions } from './slurm.js';
