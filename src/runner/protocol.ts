import path from 'node:path';
import type { ProcessIdentity } from './process-table.js';

/** The environment variable by which every process of a job can be known, however far it has strayed. */
export const jobMarker = 'REMOTE_APP_JOB_ID';

/** The pipe that the command prints into, in its working directory: its name is gone while it is in use. */
export const outputFifo = (workspace: string): string => path.join(workspace, 'output.fifo');

/** `run.json`: what the server asks a runner to do. */
export interface RunRequest {
  readonly jobId: string;
  /** Program and arguments; no shell reads them. */
  readonly command: readonly string[];
  /** Working directory of the command. */
  readonly directory: string;
  /** Where the command writes its result. */
  readonly output: string;
  /** Added to the runner's own environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Bytes of log kept from the start; what comes after is cut but for its tail. */
  readonly maxLogBytes: number;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** UUIDs of its GPUs: for a later server, to which they may have other ids. */
  readonly gpuUuids: readonly string[];
}

/** `runner.json`: who runs the job. Written before the command starts, and again when it has. */
export interface RunnerRecord {
  readonly runner: ProcessIdentity;
  /** Leads the process group of the command; null until it was started. */
  readonly command: ProcessIdentity | null;
}

/** `exit.json`: how the command ended. There is one exactly when no process of the job is left. */
export interface RunEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Why there was no exit code to have, in words. */
  readonly error: string | null;
  /** What of the machine was at fault, where that is known. */
  readonly fault: 'diskFull' | null;
  /** Lines of output that are not in the log: the disk did not take them. */
  readonly lostLines: number;
  /** ISO 8601. */
  readonly endedAt: string;
}

/** Where a runner and the server leave things for each other, inside a job directory. */
export const runFiles = (directory: string) => ({
  request: path.join(directory, 'run.json'),
  /** A directory that only one runner can make: it is the one that runs the job. */
  claim: path.join(directory, 'claimed'),
  record: path.join(directory, 'runner.json'),
  end: path.join(directory, 'exit.json'),
  log: path.join(directory, 'log'),
  /** The command's working directory. */
  workspace: path.join(directory, 'Workspace'),
});

/** Longest `exit.json`, in bytes: room for it is set aside before the command starts. */
export const maxEndBytes = 4096;
