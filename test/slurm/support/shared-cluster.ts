import type { TestProject } from 'vitest/node';
import { SlurmCluster } from '../../../support/slurm/cluster.mjs';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The configuration of the cluster that all tests share which do not disturb it. */
    slurmConf: string;
    /** A directory of this cluster that its nodes share, and everybody may write to. */
    slurmShared: string;
  }
}

/** Runs before all tests; returns what runs after them. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await SlurmCluster.start();
  project.provide('slurmConf', cluster.environment.SLURM_CONF);
  project.provide('slurmShared', cluster.shared);
  return () => cluster.stop();
}
