import type { Clock } from '../files/index.js';
import type { GpuInventory } from './devices/index.js';
import type { ServerEvents } from './events.js';
import type { ClusterReport } from './executors/slurm/index.js';
import type { openExecutor } from './open-executor.js';
import type { Report } from './report.js';
import type { ServerSettings } from './settings.js';

/** Where a server reports to, and what can cut its start short. */
export interface ServeContext {
  readonly report: Report;
  /** Receives what happens in the server. */
  readonly events?: ServerEvents;
  /** Writes a line for the admin. */
  readonly say: (line: string) => void;
  /** When aborted, stops downloads that run before the server listens. */
  readonly hurry: AbortSignal;
  /** By default opens the executor that the settings name. */
  readonly openExecutor?: typeof openExecutor;
  /** By default those of the machine. */
  readonly clock?: Clock;
}

/** What a start has found out about sandboxes, for the admin. */
export interface SandboxReport {
  /** The version of bubblewrap; null if jobs run without it. */
  readonly version: string | null;
  /** Why there is no sandbox; empty if there is one. */
  readonly problem: string;
  /** Why the system calls of jobs are not filtered in their sandbox; empty if they are. */
  readonly unfiltered: string;
  /** What jobs see besides the system, their app and their own files. */
  readonly binds: ServerSettings['binds'];
  /** What one job may use. */
  readonly limits: ServerSettings['jobLimits'];
  /** Sentences about settings that point jobs to paths which they cannot see. */
  readonly blindSpots: readonly string[];
  /** Repositories that their engine may need to fetch, but cannot. */
  readonly offline: readonly string[];
}

export interface RunningServer {
  /** `http://host:port`. */
  readonly url: string;
  /** The same for the metrics server; null if there is none. */
  readonly metricsUrl: string | null;
  /** Identifiers of the apps. */
  readonly apps: readonly string[];
  /** The real path of the data directory, where the jobs are kept. */
  readonly dataDirectory: string;
  /** Null if jobs run on a cluster. */
  readonly gpus: GpuInventory | null;
  /** Null if jobs run on this machine. */
  readonly cluster: ClusterReport | null;
  /** What the apps and the engine are missing, in sentences. */
  readonly appProblems: readonly string[];
  /** The same for these apps only. */
  problemsOf(ids: readonly string[]): Promise<readonly string[]>;
  /**
   * Reads the tokens and the apps again, without touching a job.
   * @returns how many there are
   * @throws SetupError; the apps then stay as they were
   */
  reload(): number;
  /** The sandbox; null if none was requested. */
  readonly sandbox: SandboxReport | null;
  readonly recovered: { readonly ended: number; readonly active: number };
  /** Number of jobs that have not ended. */
  activeJobs(): number;
  /** Stops accepting requests, ends the log streams, kills or leaves the jobs. Resolves when all of it is done. */
  close(): Promise<void>;
}
