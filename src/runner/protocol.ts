import type { Socket } from 'node:net';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { openDirectory } from '../files/own-file.js';

/** The environment variable that marks every process of a job, including those that have left its process group. */
export const jobMarker = 'REMOTE_APP_JOB_ID';

/** Path of the FIFO to which the command prints, in its working directory. The FIFO is unlinked as soon as it is open. */
export const outputFifo = (workspace: string): string => path.join(workspace, 'output.fifo');

/** Identifies a process, even if a later one gets the same id. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from boot to the start of the process; 0 if the system does not report it. */
  readonly startTime: number;
  /** Id of the machine's boot; empty if the system does not report it. */
  readonly boot: string;
}

/** `run.json`: how the server asks a runner to run a job. */
export interface RunRequest {
  readonly jobId: string;
  /** Program and arguments, which are not passed to a shell. */
  readonly command: readonly string[];
  /** The words before the command that start it in its sandbox; empty without a sandbox. */
  readonly wrapper: readonly string[];
  /** Whether the wrapper is bubblewrap, which reports on descriptor 3 how the command ended. */
  readonly isSandboxed: boolean;
  /** bubblewrap's filter of system calls, in base64, if there is one. bubblewrap reads it from the last descriptor. */
  readonly filter?: string | undefined;
  /** Working directory of the command. */
  readonly directory: string;
  /** Directory where the command writes its result. */
  readonly output: string;
  /** What the job may use in its sandbox; null for no limit. */
  readonly limits: {
    /** Bytes. */
    readonly memory: number | null;
    /** Number of processes and threads together. */
    readonly processes: number | null;
  };
  /**
   * The directory of the job's own cgroup, which the runner creates and removes; absent without a memory limit, and without
   * cgroups.
   */
  readonly cgroup?: string | undefined;
  /** Names of the runner's environment variables that are passed on to the command. */
  readonly inherited: readonly string[];
  /** Variables of the command, in addition to the inherited ones. */
  readonly environment: Readonly<Record<string, string>>;
  /** Number of bytes kept from the start of the log; of what follows, only the end is kept. */
  readonly maxLogBytes: number;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** UUIDs of the job's GPUs, because their ids may be different for a later server. */
  readonly gpuUuids: readonly string[];
  /** The worker that runs the job instead of the command, if the worker still exists. */
  readonly worker?: WorkerCall;
}

/** A job for a worker, that is, for an app that a worker host has already loaded or is loading for this job. */
export interface WorkerCall {
  /** The worker's id, which marks the worker's processes as a job's id marks those of a job. */
  readonly id: string;
  /** The worker host's directory. */
  readonly directory: string;
  /** The arguments that follow the program when the app is started for one job. */
  readonly arguments: readonly string[];
  /** The variables whose values differ from the worker's environment. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * `runner.json`: the identities of the runner and the command. Written before the command starts, and again once it has started.
 */
export interface RunnerRecord {
  readonly runner: ProcessIdentity;
  /** The leader of the command's process group; null until it is started. */
  readonly command: ProcessIdentity | null;
}

/** What the processes of a job used in total; null for values that are unknown. */
export interface Usage {
  /** Peak memory in bytes, as far as it was observed. */
  readonly peakMemory: number | null;
  readonly cpuSeconds: number | null;
}

export const unknownUsage: Usage = { peakMemory: null, cpuSeconds: null };

/** `exit.json`: how the command ended. It exists if and only if no process of the job is left. */
export interface RunEnd extends Usage {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Why there is no exit code, as a sentence. */
  readonly error: string | null;
  /** What was at fault on the machine, if known. `notStarted`: the program was never started. */
  readonly fault: 'diskFull' | 'outOfMemory' | 'notStarted' | null;
  /** Number of output lines missing from the log because the disk was full. */
  readonly lostLines: number;
  /** Whether the command was started just for this job, because its worker was gone. */
  readonly wasAlone: boolean;
  /** When the command ended (ISO 8601). */
  readonly endedAt: string;
}

/** The files in a job directory by which server and runner communicate. */
export const runFiles = (directory: string) => ({
  request: path.join(directory, 'run.json'),
  /** A directory that only one runner can create; the runner that does so runs the job. */
  claim: path.join(directory, 'claimed'),
  record: path.join(directory, 'runner.json'),
  end: path.join(directory, 'exit.json'),
  log: path.join(directory, 'log'),
  /** The command's working directory. */
  workspace: path.join(directory, 'Workspace'),
});

/** Maximum size in bytes of `exit.json`. Space for the file is reserved before the command starts. */
export const maxEndBytes = 4096;

/** `worker.json`: how the server asks a worker host to start a worker. */
export interface WorkerRequest
  extends Pick<
    RunRequest,
    'command' | 'wrapper' | 'isSandboxed' | 'filter' | 'limits' | 'inherited' | 'environment' | 'killGrace'
  > {
  readonly id: string;
  /** Milliseconds after which the worker host exits if it has no job and no server is connected. */
  readonly idle: number;
  /** Identifies who can use the worker: jobs of the same app and devices, and of the same owner or of all owners. */
  readonly sharedBy: string;
  /**
   * Identifies what the worker was started with: a job may use the worker only if the app would be started in the same way for
   * it.
   */
  readonly content: string;
  /** The app's name, for people. */
  readonly name: string;
  /** Owner of the job that the worker was started for; null for the admin. */
  readonly owner: string | null;
  /** Whether the worker is for jobs of all owners, not only of this one. */
  readonly isShared: boolean;
  readonly gpus: readonly number[];
  readonly gpuUuids: readonly string[];
  /** Bytes that the worker takes of each of its GPUs; null if it has them exclusively. */
  readonly gpuMemory: number | null;
  /** Files and directories of the app, and their state when the worker was started. */
  readonly watched: readonly string[];
  readonly seen: string;
}

/** `host.json`: the identities of the worker host and the worker. */
export interface WorkerHostRecord {
  readonly host: ProcessIdentity;
  /** The leader of the worker's process group; null until it is started. */
  readonly worker: ProcessIdentity | null;
}

/** What a worker host reports to the server. */
export interface WorkerState {
  readonly state: 'loading' | 'idle' | 'busy' | 'leaving';
  /** Id of the worker host's current job. */
  readonly job: string | null;
}

/** A job, as its runner passes it to a worker host and the worker host passes it to the worker. */
export interface JobCall {
  readonly job: string;
  readonly arguments: readonly string[];
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** How a job in a worker ended, as the worker host reports it to the runner. */
export type WorkerEnd = Pick<RunEnd, 'exitCode' | 'signal' | 'error' | 'fault' | 'lostLines' | keyof Usage>;

/** The files of a worker host. */
export const workerFiles = (directory: string) => ({
  request: path.join(directory, 'worker.json'),
  record: path.join(directory, 'host.json'),
  socket: path.join(directory, 'socket'),
  /** The worker's working directory between two jobs. */
  home: path.join(directory, 'home'),
  temporary: path.join(directory, 'home', 'tmp'),
  /** Where the worker's sandbox shows the jobs, if there is a sandbox. */
  jobMounts: path.join(directory, 'stage'),
});

/** Path of the FIFO for a worker's answers. The FIFO is unlinked as soon as it is open. */
export const answersFifo = (home: string): string => path.join(home, 'answers.fifo');

/** Path of the FIFO for the worker's stdin, likewise unlinked. */
export const jobsFifo = (home: string): string => path.join(home, 'jobs.fifo');

/**
 * The variable that tells a worker which file to write its answers to, and the variable's value: the descriptor that the worker
 * host provides.
 */
export const answersVariable = 'REMOTE_APP_ANSWERS';
export const answersFile = '/dev/fd/3';

/** Maximum size in bytes of a socket's path; the system's limit is 107. */
const maxAddress = 100;

/**
 * Calls a function with a socket path that is short enough for the system: a long path is replaced by one through an open
 * directory.
 */
export function withSocketAddress<T>(directory: string, use: (address: string) => T): T {
  const { socket } = workerFiles(directory);
  if (Buffer.byteLength(socket) <= maxAddress) return use(socket);
  using opened = openDirectory(directory);
  return use(path.join(opened.path, path.basename(socket)));
}

/** A message on a worker host's socket: a line of JSON. */
export type HostMessage =
  /** Runner: a job, and the log that its output goes to. */
  | { readonly kind: 'job'; readonly call: JobCall; readonly log: string; readonly maxLogBytes: number }
  /** Runner to worker host: end the job. */
  | { readonly kind: 'stop' }
  /** Server to worker host: report every change of state. */
  | { readonly kind: 'attach' }
  /** Server to worker host: exit, after the current job if there is one. */
  | { readonly kind: 'leave' }
  /** Worker host to runner: the worker has the job. A job that it does not take closes the connection. */
  | { readonly kind: 'accepted'; readonly worker: ProcessIdentity }
  /** Worker host to runner. */
  | { readonly kind: 'end'; readonly end: WorkerEnd }
  /** Worker host to server. */
  | { readonly kind: 'state'; readonly state: WorkerState };

export function sendMessage(socket: Socket, message: HostMessage): void {
  if (!socket.destroyed && !socket.writableEnded) socket.write(`${JSON.stringify(message)}\n`);
}

/** Maximum length of a line in characters: more than the longest argument list that Linux takes. */
const maxLine = 64 << 20;

/** Calls back with each line of a stream, without its end. A stream whose line is longer than `maxLine` is destroyed. */
export function onLines(stream: Readable, handle: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text: string) => {
    const lines = text.split('\n');
    lines[0] = rest + lines[0];
    rest = lines.pop() ?? '';
    for (const line of lines) handle(line);
    if (rest.length > maxLine) stream.destroy();
  });
}

/** Calls back with each message. A connection on which something else arrives, or that the callback refuses, is closed. */
export function onMessages(socket: Socket, handle: (message: HostMessage) => void): void {
  socket.on('error', () => {});
  onLines(socket, (line) => {
    try {
      handle(JSON.parse(line) as HostMessage);
    } catch {
      socket.destroy();
    }
  });
}

/** Resolves when a socket is closed, for whatever reason: `once` from `node:events` would reject if the socket fails first. */
export const isClosed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
