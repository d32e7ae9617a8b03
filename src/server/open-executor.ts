import path from 'node:path';
import { checkFileSystem } from './data-directory/index.js';
import { type GpuInventory, inventory } from './devices/index.js';
import type { ServerEvents } from './events.js';
import type { Executor, OwnerLimits } from './executors/index.js';
import { LocalExecutor } from './executors/local/index.js';
import type { ClusterReport } from './executors/slurm/index.js';
import { shareOfRam } from './ram.js';
import type { Report } from './report.js';
import { delegatedCgroup, type FoundSandbox, findSandbox, sandboxRules } from './sandbox/index.js';
import { killGrace, maxLogBytes, type ServerSettings } from './settings.js';

/** An executor, and what was found out about the machine or the cluster when it was opened. */
export interface OpenedExecutor {
  readonly executor: Executor & {
    /** Makes the executor consider waiting jobs again, because limits of owners may have changed. */
    reconsider(): void;
  };
  /** The executor itself if it is the one for this machine; otherwise null. */
  readonly local: LocalExecutor | null;
  /** Null if jobs run on a cluster. */
  readonly gpus: GpuInventory | null;
  /** Null if jobs run on this machine. */
  readonly cluster: ClusterReport | null;
  readonly found: FoundSandbox;
}

export interface ExecutorContext {
  readonly limits: OwnerLimits;
  /** Whether an upgrade has replaced the programs that run jobs. */
  readonly isUpgraded: () => boolean;
  readonly events: ServerEvents;
  readonly report: Report;
}

/** The environment for programs that the server starts: the server's own, without the variables that hold a token. */
export const environmentWithoutTokens = ({
  environment,
  tokenVariables,
}: ServerSettings): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !tokenVariables.includes(name)));

async function openCluster(
  settings: ServerSettings,
  slurm: NonNullable<ServerSettings['slurm']>,
  { limits, report }: ExecutorContext,
): Promise<OpenedExecutor> {
  const { openSlurm } = await import('./executors/slurm/index.js');
  const { passEnvironment } = settings;
  const environment = environmentWithoutTokens(settings);
  const given = { environment, passEnvironment, killGrace, maxLogBytes, report };
  const opened = await openSlurm({ ...given, ...limits, options: slurm });
  const problem =
    'not available with --executor slurm, because only the node knows which GPUs a job has, and a sandbox must show only these';
  return { ...opened, local: null, gpus: null, found: { sandbox: null, problem } };
}

/**
 * Opens the executor that the settings select.
 * @throws SetupError, or the system's error for the data directory
 */
export async function openExecutor(
  settings: ServerSettings,
  context: ExecutorContext,
): Promise<OpenedExecutor> {
  const { passEnvironment, dataDirectory, slurm, environment } = settings;
  const { limits, isUpgraded, events, report } = context;
  checkFileSystem(dataDirectory);
  if (slurm) return openCluster(settings, slurm, context);
  const reportOddity = (oddity: string) =>
    report('nvidia-smi lists the GPUs, and they are used, but its answer is odd', oddity);
  const gpus = inventory(environment, reportOddity);
  try {
    const rules = { ...sandboxRules(settings), gpus };
    const [found] = await Promise.all([findSandbox(settings.sandbox, rules), gpus.start()]);
    const local = new LocalExecutor({
      environment: environmentWithoutTokens(settings),
      killGrace,
      maxLogBytes,
      passEnvironment,
      dataDirectory,
      events,
      maxGpus: limits.maxGpus,
      maxJobs: limits.maxJobs,
      report,
      gpus,
      isUpgraded,
      cpuSlots: settings.cpuSlots,
      processors: settings.processors,
      gpuMargin: settings.gpuMargin,
      sandbox: found.sandbox,
      cgroups: found.sandbox && delegatedCgroup(),
      limits: settings.jobLimits,
      workers: {
        directory: path.join(dataDirectory, 'workers'),
        idle: settings.residentIdle,
        memoryUse: shareOfRam,
      },
    });
    return { executor: local, local, gpus, cluster: null, found };
  } catch (cause) {
    gpus.close();
    throw cause;
  }
}
