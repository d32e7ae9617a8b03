import path from 'node:path';
import { findProgram } from '../../../files/index.js';
import { cleanupProgram, runnerProgram } from '../../../runner/index.js';
import { ownDirectory } from '../../data-directory/index.js';
import { SetupError } from '../../setup-error.js';
import { Cluster } from './cluster.js';
import { Slurm, SlurmFailure, type SlurmOptions } from './slurm.js';
import { SlurmExecutor, type SlurmExecutorSettings } from './slurm-executor.js';

/** What a start has found out about the cluster, for the admin. */
export interface ClusterReport {
  readonly version: string;
  /** Nodes that jobs may run on, and their GPUs; null while Slurm does not answer. */
  readonly size: { readonly nodes: number; readonly gpus: number } | null;
  /** Why Slurm does not answer; null if it does. */
  readonly problem: string | null;
}

/** The commands of Slurm that must be there; sacct is optional. */
const requiredCommands = ['sbatch', 'squeue', 'scancel', 'sinfo'];

/** Refusals of settings that can never run a job; others may be temporary, such as when all nodes are down. */
const permanent =
  /invalid|not found|permission|denied|unrecognized|unknown|must|not allowed|illegal|requires/i;

/** @throws SetupError */
function refusal(message: string): SetupError {
  return new SetupError(`--executor slurm: ${message}`);
}

/**
 * Finds out whether Slurm takes jobs with these settings.
 * @throws SetupError if commands are missing or Slurm would refuse every job, but not if it does not answer
 */
async function examineSlurm(
  slurm: Slurm,
  cluster: Cluster,
  options: SlurmOptions,
  searchPath: string,
): Promise<ClusterReport> {
  const missing = requiredCommands.filter((name) => findProgram(name, searchPath) === undefined);
  if (missing.length > 0) {
    throw refusal(
      `${missing.join(', ')} of Slurm cannot be found on PATH; run the server on a login node of the cluster (Debian and Ubuntu: apt-get install slurm-client)`,
    );
  }
  const version = await slurm.version().catch((cause: Error) => {
    throw refusal(cause.message);
  });
  await cluster.refresh();
  const { nodes } = cluster;
  if (nodes === null) return { version, size: null, problem: cluster.problem };
  if (nodes.length === 0 && options.partition !== null) {
    const there = (await slurm.partitions()).join(', ');
    throw new SetupError(
      `--slurm-partition ${options.partition}: the cluster has no partition ${options.partition} with nodes; it has: ${there}`,
    );
  }
  let problem: string | null = null;
  try {
    await slurm.test();
  } catch (cause) {
    if (!(cause instanceof SlurmFailure)) throw cause;
    if (!cause.isTemporary && permanent.test(cause.message)) {
      throw refusal(`Slurm refuses every job with these settings: ${cause.message}`);
    }
    problem = cause.message;
  }
  const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
  return { version, size: { nodes: nodes.length, gpus }, problem };
}

/** Examines the cluster without an executor, for `serve --check`. @throws SetupError */
export function lookAtSlurm(options: SlurmOptions, environment: NodeJS.ProcessEnv): Promise<ClusterReport> {
  const slurm = new Slurm({ options, environment, programs, passEnvironment: [], notices: '/dev/null' });
  const cluster = new Cluster(options.partition, (words) => slurm.sinfo(words));
  return examineSlurm(slurm, cluster, options, environment.PATH ?? '');
}

const programs = { node: process.execPath, runner: runnerProgram, cleanup: cleanupProgram };

/** The settings of the executor, without those that are decided here. */
export type OpenSlurmSettings = Omit<SlurmExecutorSettings, 'programs' | 'notices'> & {
  readonly dataDirectory: string;
};

/**
 * The executor of a cluster. It knows the jobs that Slurm still has of an earlier server, unless Slurm does not answer.
 * @throws SetupError
 */
export async function openSlurm({
  dataDirectory,
  ...settings
}: OpenSlurmSettings): Promise<{ readonly executor: SlurmExecutor; readonly cluster: ClusterReport }> {
  const notices = path.join(ownDirectory(dataDirectory, 'slurm', settings.report), 'notices');
  const all = { ...settings, programs, notices };
  const executor = new SlurmExecutor(all);
  const { options, environment } = settings;
  const [cluster] = await Promise.all([
    examineSlurm(new Slurm(all), executor.cluster, options, environment.PATH ?? ''),
    executor.start(),
  ]);
  return { executor, cluster };
}
