import type { NamedApps } from './apps/index.js';
import type { SlurmOptions } from './executors/slurm/index.js';
import type { JobLimits, SandboxMode, Visible } from './sandbox/index.js';
import type { SubmissionSettings } from './submissions/index.js';

/** The settings of a server: `serve`'s flags in base units. */
export interface ServerSettings extends SubmissionSettings {
  /** Version of this program. */
  readonly version: string;
  /** The environment variables of the server. */
  readonly environment: NodeJS.ProcessEnv;
  readonly host: string;
  /** The port; 0 for any free one. */
  readonly port: number;
  /** Whether the routes include the metrics, for admins. */
  readonly metrics: boolean;
  /** Where the metrics are also served without a token; null if nowhere. */
  readonly metricsAt: { readonly host: string; readonly port: number } | null;
  /** The environment's token, whose holder may do everything; null if there is none. */
  readonly token: string | null;
  /** The file of named tokens; null if there is none. Without either kind of token, every endpoint is open. */
  readonly tokensFile: string | null;
  /** Limits of each user, for limits of the role `user` that the token file does not set. */
  readonly userLimits: { readonly max_jobs: number | null; readonly max_kept: number | null };
  /** The file of the audit log; null for none. */
  readonly auditLog: string | null;
  /** Addresses and networks of proxies whose `X-Forwarded-For` counts. */
  readonly trustedProxies: readonly string[];
  /** The secret that these proxies send with each request. Null for no secret; a proxy on this machine is then not trusted. */
  readonly proxySecret: string | null;
  /** Files with tokens, and the audit log. Sandboxes hide them from jobs, wherever they are. */
  readonly secretFiles: readonly string[];
  /** Environment variables that may hold a token: no job may see them. */
  readonly tokenVariables: readonly string[];
  readonly apps: readonly string[];
  readonly namedApps: NamedApps;
  readonly engine: readonly string[];
  /** The directory of the programs that keep engines loaded between jobs; null if an engine is started for each job. */
  readonly residentEngines: string | null;
  /** Milliseconds that a worker may be idle; 0 if each job starts its app anew. */
  readonly residentIdle: number;
  /** Whether the apps of repositories are fetched completely before the server listens. */
  readonly download: boolean;
  readonly dataDirectory: string;
  readonly maxJobs: number;
  /** Maximum number of bytes that one job may write; null for the default of the disk. */
  readonly diskPerJob: number | null;
  /** Milliseconds. */
  readonly grace: number;
  /** Milliseconds. */
  readonly maxKeep: number;
  /** Milliseconds that an upload is kept after its last use; 0 if submissions can only be forms. */
  readonly keepUploads: number;
  /** Milliseconds that a job may run; null for no limit. */
  readonly maxRunTime: number | null;
  /** The same for fine-tuning. */
  readonly maxFineTuneTime: number | null;
  /** Milliseconds. */
  readonly keepAlive: number;
  readonly cpuSlots: number;
  /** Processors that the server and its jobs may use: fewer than the machine has in a container with a quota. */
  readonly processors: number;
  /** Bytes that each job on a shared GPU takes in addition to what its app declares; null if GPUs are not shared. */
  readonly gpuMargin: number | null;
  /** How jobs run on a Slurm cluster; null if they run on this machine. */
  readonly slurm: SlurmOptions | null;
  readonly onExit: 'kill' | 'keep';
  /** A program of the admin, with its arguments, that is run for each job that ends; null for none. */
  readonly onEnd: readonly string[] | null;
  readonly sandbox: SandboxMode;
  /** What each job may use in its sandbox. */
  readonly jobLimits: JobLimits;
  /** What jobs can see in their sandbox besides the system, their app and their own files. Paths are absolute. */
  readonly binds: readonly Visible[];
  /** Variables of the server's environment that jobs get in addition to those that all jobs get. */
  readonly passEnvironment: readonly string[];
}

/** Maximum number of log streams that may be open at once (docs/http.md, Limits). */
export const maxStreams = 200;
/** Maximum number of them for one named token. */
export const maxStreamsOfOwner = 50;
/** Milliseconds between SIGTERM and SIGKILL (docs/http.md, Jobs). */
export const killGrace = 3000;
/** Number of bytes that are kept from the start of a job's log. */
export const maxLogBytes = 256 << 20;

/** Maximum number of ended jobs that are kept for one owner. Each takes a few kilobytes of memory, and time at startup. */
export const maxKeptJobs = 10_000;
