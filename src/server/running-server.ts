import type { Clock } from '../files/index.js';
import type { GpuInventory } from './devices/index.js';
import type { ServerEvents } from './events.js';
import type { ClusterReport } from './executors/slurm/index.js';
import type { openExecutor } from './open-executor.js';
import type { Report } from './report.js';
import type { ServerSettings } from './settings.js';

/** Where a server reports to, and what can interrupt its start. */
export interface ServeContext {
  readonly report: Report;
  /** Receives the events of the server. */
  readonly events?: ServerEvents;
  /** Writes a line for the admin. */
  readonly say: (line: string) => void;
  /** When aborted, stops the downloads that precede listening. */
  readonly hurry: AbortSignal;
  /** By default, opens the executor that the settings select. */
  readonly openExecutor?: typeof openExecutor;
  /** By default, the machine's clocks. */
  readonly clock?: Clock;
}

/** What was determined about sandboxes at the start, for the admin. */
export interface SandboxReport {
  /** The version of bubblewrap; null if jobs run without it. */
  readonly version: string | null;
  /** Why there is no sandbox; empty if there is one. */
  readonly problem: string;
  /** Why the system calls of jobs are not filtered in their sandbox; empty if they are. */
  readonly unfiltered: string;
  /** Which paths jobs can see besides the system, their app and their own files. */
  readonly binds: ServerSettings['binds'];
  /** What each job may use. */
  readonly limits: ServerSettings['jobLimits'];
  /** Sentences about settings that point jobs to paths which they cannot see. */
  readonly blindSpots: readonly string[];
  /** Ids of repositories from which the engine may need to download, but cannot. */
  readonly offline: readonly string[];
}

export interface RunningServer {
  /** `http://host:port`. */
  readonly url: string;
  /** `http://host:port` of the metrics server; null if there is none. */
  readonly metricsUrl: string | null;
  /** Identifiers of the apps. */
  readonly apps: readonly string[];
  /** The real path of the data directory, which contains the jobs. */
  readonly dataDirectory: string;
  /** Null if jobs run on a cluster. */
  readonly gpus: GpuInventory | null;
  /** Null if jobs run on this machine. */
  readonly cluster: ClusterReport | null;
  /** What the apps and the engine are missing, in sentences. */
  readonly appProblems: readonly string[];
  /** The same, for only these apps. */
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
  /**
   * Stops accepting requests, ends the log streams, and kills the jobs or leaves them running. Resolves when all of that is done.
   */
  close(): Promise<void>;
}
