import type { GpuInventory } from './devices/index.js';
import type { ServerEvents } from './events.js';
import type { ClusterReport } from './executors/slurm/index.js';
import type { Report } from './report.js';
import type { ServerSettings } from './settings.js';

/** Where a server reports, and what cuts its start short. */
export interface ServeContext {
  readonly report: Report;
  /** Where the server tells what happens. */
  readonly events?: ServerEvents;
  /** Writes a line for the admin. */
  readonly say: (line: string) => void;
  /** Aborts what is fetched before the server listens. */
  readonly hurry: AbortSignal;
}

/** What a start has found of sandboxes, for the admin. */
export interface SandboxReport {
  /** Of bubblewrap; null where jobs run without. */
  readonly version: string | null;
  /** Why there is no sandbox; empty if there is one. */
  readonly problem: string;
  /** Why the system calls of jobs are not filtered in their sandbox; empty if they are. */
  readonly unfiltered: string;
  /** What jobs see besides the system, their app and their own files. */
  readonly binds: ServerSettings['binds'];
  /** What one job may use. */
  readonly limits: ServerSettings['jobLimits'];
  /** Sentences about settings that lead jobs to paths which they cannot see. */
  readonly blindSpots: readonly string[];
  /** Repositories that their engine may have to fetch, and cannot. */
  readonly offline: readonly string[];
}

export interface RunningServer {
  /** `http://host:port`. */
  readonly url: string;
  /** The same of the server for metrics; null if there is none. */
  readonly metricsUrl: string | null;
  /** Identifiers of the apps. */
  readonly apps: readonly string[];
  /** Where the jobs are kept: its real path. */
  readonly dataDirectory: string;
  /** Null where jobs run on a cluster. */
  readonly gpus: GpuInventory | null;
  /** Null where jobs run on this machine. */
  readonly cluster: ClusterReport | null;
  /** What the apps and the engine lack, in sentences. */
  readonly appProblems: readonly string[];
  /** The same for these apps. */
  problemsOf(ids: readonly string[]): Promise<readonly string[]>;
  /**
   * Reads the tokens and the apps again, without touching a job.
   * @returns how many there are
   * @throws SetupError; the apps then stay as they were
   */
  reload(): number;
  /** The sandbox; null if none was asked for. */
  readonly sandbox: SandboxReport | null;
  readonly recovered: { readonly ended: number; readonly active: number };
  /** Number of jobs that have not ended. */
  activeJobs(): number;
  /** Stops accepting requests, ends the log streams, kills or leaves the jobs. Resolves when all of it is done. */
  close(): Promise<void>;
}
