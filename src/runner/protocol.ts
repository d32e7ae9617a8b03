import path from 'node:path';
import type { ProcessIdentity } from './process-table.js';

/** The environment variable that marks every process of a job, also one that has left its process group. */
export const jobMarker = 'REMOTE_APP_JOB_ID';

/** The FIFO that the command prints into, in its working directory. It is unlinked as soon as it is open. */
export const outputFifo = (workspace: string): string => path.join(workspace, 'output.fifo');

/** `run.json`: what the server asks a runner to do. */
export interface RunRequest {
  readonly jobId: string;
  /** Program and arguments, which are not passed to a shell. */
  readonly command: readonly string[];
  /** What stands before them on the command line that is started: the sandbox. */
  readonly wrapper: readonly string[];
  /** Whether the wrapper is bubblewrap, which tells how the command ended on descriptor 3. */
  readonly isSandboxed: boolean;
  /** bubblewrap's filter of system calls, in base64, if there is one. It reads it from the descriptor behind all others. */
  readonly filter?: string | undefined;
  /** Working directory of the command. */
  readonly directory: string;
  /** Where the command writes its result. */
  readonly output: string;
  /** What the job may use in its sandbox; null for as much as there is. */
  readonly limits: {
    /** Bytes. */
    readonly memory: number | null;
    /** Processes and threads. */
    readonly processes: number | null;
  };
  /** Names of the runner's own variables that the command gets. */
  readonly inherited: readonly string[];
  /** Added to these. */
  readonly environment: Readonly<Record<string, string>>;
  /** Bytes of the log that are kept from its start; of the rest only the end is kept. */
  readonly maxLogBytes: number;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** UUIDs of its GPUs, since a later server may see them under other ids. */
  readonly gpuUuids: readonly string[];
  /** The loaded app that the job is given to, as long as it is there; then the command is not started. */
  readonly worker?: WorkerCall;
}

/** A job for a worker: an app that is loaded already, or is being loaded for this job, by a keeper. */
export interface WorkerCall {
  /** The worker's id, which marks its processes as a job's id marks those of a job. */
  readonly id: string;
  /** The keeper's directory. */
  readonly directory: string;
  /** The words that a cold start would have after the program. */
  readonly arguments: readonly string[];
  /** The variables that differ from the worker's own. */
  readonly environment: Readonly<Record<string, string>>;
}

/** `runner.json`: the processes of runner and command. Written before the command starts, and again when it has started. */
export interface RunnerRecord {
  readonly runner: ProcessIdentity;
  /** The leader of the command's process group; null until it is started. */
  readonly command: ProcessIdentity | null;
}

/** `exit.json`: how the command ended. It exists exactly when no process of the job is left. */
export interface RunEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Why there was no exit code to have, in words. */
  readonly error: string | null;
  /** What of the machine was at fault, where that is known. */
  readonly fault: 'diskFull' | 'outOfMemory' | null;
  /** Lines of output that are not in the log: the disk did not take them. */
  readonly lostLines: number;
  /** Whether its loaded app was gone, so that the command was started for this job alone. */
  readonly wasAlone: boolean;
  /** ISO 8601. */
  readonly endedAt: string;
}

/** The files in a job directory by which server and runner communicate. */
export const runFiles = (directory: string) => ({
  request: path.join(directory, 'run.json'),
  /** A directory that only one runner can make; that runner runs the job. */
  claim: path.join(directory, 'claimed'),
  record: path.join(directory, 'runner.json'),
  end: path.join(directory, 'exit.json'),
  log: path.join(directory, 'log'),
  /** The command's working directory. */
  workspace: path.join(directory, 'Workspace'),
});

/** Longest `exit.json`, in bytes. Room for it is reserved before the command starts. */
export const maxEndBytes = 4096;
