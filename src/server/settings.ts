import type { NamedApps } from './apps/index.js';
import type { SlurmOptions } from './executors/slurm/index.js';
import type { JobLimits, SandboxMode, Visible } from './sandbox/index.js';
import type { SubmissionSettings } from './submissions/index.js';

/** The settings of a server: `serve`'s flags in base units. */
export interface ServerSettings extends SubmissionSettings {
  /** Of this program. */
  readonly version: string;
  /** The environment variables of the server. */
  readonly environment: NodeJS.ProcessEnv;
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** Whether there are metrics, for admins among the other routes. */
  readonly metrics: boolean;
  /** Where the metrics are also served without a token; null if nowhere. */
  readonly metricsAt: { readonly host: string; readonly port: number } | null;
  /** The environment's token, whose holder may do everything; null if there is none. */
  readonly token: string | null;
  /** The file of named tokens; null if there is none. Without either, every endpoint is open. */
  readonly tokensFile: string | null;
  /** Limits of each person, for what the file of tokens does not say of the role `user`. */
  readonly userLimits: { readonly max_jobs: number | null; readonly max_kept: number | null };
  /** The file of the audit log; null for none. */
  readonly auditLog: string | null;
  /** Addresses and networks of proxies whose `X-Forwarded-For` counts. */
  readonly trustedProxies: readonly string[];
  /** What these proxies send with each request; null for no secret, with which no proxy of this machine counts. */
  readonly proxySecret: string | null;
  /** Files with tokens, and the audit log. No sandbox shows them to a job, wherever they are. */
  readonly secretFiles: readonly string[];
  /** Environment variables that may hold a token: no job may see them. */
  readonly tokenVariables: readonly string[];
  readonly apps: readonly string[];
  readonly namedApps: NamedApps;
  readonly engine: readonly string[];
  /** The directory of the programs that keep engines loaded between jobs; null if an engine is started for each job. */
  readonly residentEngines: string | null;
  /** Milliseconds that a worker may be idle; 0: apps are started anew for each job. */
  readonly residentIdle: number;
  /** Whether the apps of repositories are fetched completely before the server listens. */
  readonly download: boolean;
  readonly dataDirectory: string;
  readonly maxJobs: number;
  /** Bytes that one job may write; null for the default of its disk. */
  readonly diskPerJob: number | null;
  /** Milliseconds. */
  readonly grace: number;
  /** Milliseconds. */
  readonly maxKeep: number;
  /** Milliseconds that an upload is kept after its last use; 0: submissions are forms alone. */
  readonly keepUploads: number;
  /** Milliseconds that a job may run; null for no limit. */
  readonly maxRunTime: number | null;
  /** The same for fine-tuning. */
  readonly maxFineTuneTime: number | null;
  /** Milliseconds. */
  readonly keepAlive: number;
  readonly cpuSlots: number;
  /** Processors that the server and its jobs may use, fewer than the machine's in a container with a quota. */
  readonly processors: number;
  /** Bytes that each job on a shared GPU takes beyond what its app declares; null if a GPU is for one job. */
  readonly gpuMargin: number | null;
  /** How jobs run on a Slurm cluster; null if they run on this machine. */
  readonly slurm: SlurmOptions | null;
  readonly onExit: 'kill' | 'keep';
  /** A program of the admin, with its arguments, that is run for each job that ends; null for none. */
  readonly onEnd: readonly string[] | null;
  readonly sandbox: SandboxMode;
  /** What one job may use in its sandbox. */
  readonly jobLimits: JobLimits;
  /** What jobs see in their sandbox besides the system, their app and their own files. Absolute. */
  readonly binds: readonly Visible[];
  /** Variables of the server's environment that jobs get besides those of the table. */
  readonly passEnvironment: readonly string[];
}

/** Number of log streams that may be open at once (docs/http.md, Limits). */
export const maxStreams = 200;
/** How many of them one named token may have. */
export const maxStreamsOfOwner = 50;
/** Milliseconds between SIGTERM and SIGKILL (docs/http.md, Jobs). */
export const killGrace = 3000;
/** Bytes of a job's log that are kept from its start. */
export const maxLogBytes = 256 << 20;

/** Ended jobs that one owner may keep. Each takes a few kilobytes of memory, and time at a start. */
export const maxKeptJobs = 10_000;
