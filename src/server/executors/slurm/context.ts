import type { Turns } from '../../../files/turns.js';
import type { Report } from '../../report.js';
import type { Cluster } from './cluster.js';
import type { JobQueue } from './job-queue.js';
import type { OwnerGate } from './owner-gate.js';
import type { Slurm } from './slurm.js';

/** What the jobs of an executor share. */
export interface SlurmContext {
  readonly slurm: Slurm;
  readonly queue: JobQueue;
  readonly cluster: Cluster;
  readonly gate: OwnerGate;
  /** One submission at a time, so that jobs come into Slurm's queue in their order. */
  readonly turns: Turns;
  /** The environment of jobs: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** Names of variables that jobs get beside those of the table: `serve --pass-env`. */
  readonly passEnvironment: readonly string[];
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** Bytes of a job's log that are kept from its start. */
  readonly maxLogBytes: number;
  readonly report: Report;
}
