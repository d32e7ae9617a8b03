import type { Socket } from 'node:net';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { openDirectory } from '../files/own-file.js';

/** The environment variable that marks every process of a job, even one that has left its process group. */
export const jobMarker = 'REMOTE_APP_JOB_ID';

/** The FIFO that the command prints into, in its working directory. It is unlinked as soon as it is open. */
export const outputFifo = (workspace: string): string => path.join(workspace, 'output.fifo');

/** Identifies a process, also against a later one with the same id. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from boot to the start of the process; 0 if the system does not report it. */
  readonly startTime: number;
  /** Id of the machine's boot; empty if the system does not tell. */
  readonly boot: string;
}

/** `run.json`: what the server asks a runner to do. */
export interface RunRequest {
  readonly jobId: string;
  /** Program and arguments, which are not passed to a shell. */
  readonly command: readonly string[];
  /** The words before the command, which put it into its sandbox; empty without one. */
  readonly wrapper: readonly string[];
  /** Whether the wrapper is bubblewrap, which reports on descriptor 3 how the command ended. */
  readonly isSandboxed: boolean;
  /** bubblewrap's filter of system calls, in base64, if there is one. bubblewrap reads it from the last descriptor. */
  readonly filter?: string | undefined;
  /** Working directory of the command. */
  readonly directory: string;
  /** Where the command writes its result. */
  readonly output: string;
  /** What the job may use in its sandbox; null for no limit. */
  readonly limits: {
    /** Bytes. */
    readonly memory: number | null;
    /** Processes and threads. */
    readonly processes: number | null;
  };
  /** The directory of its own cgroup, which the runner makes and removes; absent without a limit of memory, and without cgroups. */
  readonly cgroup?: string | undefined;
  /** Names of the runner's own variables that the command gets. */
  readonly inherited: readonly string[];
  /** Added to these. */
  readonly environment: Readonly<Record<string, string>>;
  /** Bytes kept from the start of the log; of the rest, only the end is kept. */
  readonly maxLogBytes: number;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** UUIDs of its GPUs, since a later server may see them under other ids. */
  readonly gpuUuids: readonly string[];
  /** The worker that runs the job instead of the command, if it is still available. */
  readonly worker?: WorkerCall;
}

/** A job for a worker: an app that a worker host has loaded already, or is loading for this job. */
export interface WorkerCall {
  /** The worker's id, which marks its processes as a job's id marks a job's processes. */
  readonly id: string;
  /** The worker host's directory. */
  readonly directory: string;
  /** The arguments that a cold start would pass after the program. */
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

/** What the processes of a job have used together; null where it is not known. */
export interface Usage {
  /** Bytes of memory at most at a time, as far as it was seen. */
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
  /** The part of the machine that was at fault, if known. `notStarted`: the program was never started. */
  readonly fault: 'diskFull' | 'outOfMemory' | 'notStarted' | null;
  /** Lines of output missing from the log because the disk was full. */
  readonly lostLines: number;
  /** Whether its worker was gone, so the command was started just for this job. */
  readonly wasAlone: boolean;
  /** ISO 8601. */
  readonly endedAt: string;
}

/** The files in a job directory by which server and runner communicate. */
export const runFiles = (directory: string) => ({
  request: path.join(directory, 'run.json'),
  /** A directory that only one runner can create; that runner runs the job. */
  claim: path.join(directory, 'claimed'),
  record: path.join(directory, 'runner.json'),
  end: path.join(directory, 'exit.json'),
  log: path.join(directory, 'log'),
  /** The command's working directory. */
  workspace: path.join(directory, 'Workspace'),
});

/** Maximum size in bytes of `exit.json`. Space for it is reserved before the command starts. */
export const maxEndBytes = 4096;

/** `worker.json`: what the server asks a worker host to do. */
export interface WorkerRequest
  extends Pick<
    RunRequest,
    'command' | 'wrapper' | 'isSandboxed' | 'filter' | 'limits' | 'inherited' | 'environment' | 'killGrace'
  > {
  readonly id: string;
  /** Milliseconds after which it exits if it has no job and there is no server. */
  readonly idle: number;
  /** Who can use it: jobs of the same app, devices and owner, or of all owners. */
  readonly sharedBy: string;
  /** What it was started with: a job may use it only if it would be started in the same way. */
  readonly content: string;
  /** The app's name, for people. */
  readonly name: string;
  /** Whose job it was started for; null for the admin's. */
  readonly owner: string | null;
  /** Whether it is for jobs of all owners, not only of this one. */
  readonly isShared: boolean;
  readonly gpus: readonly number[];
  readonly gpuUuids: readonly string[];
  /** Bytes that it takes of each of its GPUs; null if it has them for itself. */
  readonly gpuMemory: number | null;
  /** Files and directories of the app, and their state when it was started. */
  readonly watched: readonly string[];
  readonly seen: string;
}

/** `host.json`: the processes of worker host and worker. */
export interface WorkerHostRecord {
  readonly host: ProcessIdentity;
  /** The leader of the worker's process group; null until it is started. */
  readonly worker: ProcessIdentity | null;
}

/** What a worker host reports to the server. */
export interface WorkerState {
  readonly state: 'loading' | 'idle' | 'busy' | 'leaving';
  /** Its current job. */
  readonly job: string | null;
}

/** A job as its runner passes it to a worker host, and the worker host to the worker. */
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
  /** Where its sandbox shows the jobs, if there is one. */
  jobMounts: path.join(directory, 'stage'),
});

/** The FIFO for a worker's answers. It is unlinked as soon as it is open. */
export const answersFifo = (home: string): string => path.join(home, 'answers.fifo');

/** The same for its stdin. */
export const jobsFifo = (home: string): string => path.join(home, 'jobs.fifo');

/** The variable that names the file for a worker's answers, and what it names: the descriptor that the worker host gives it. */
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
  /** Runner: end the job. */
  | { readonly kind: 'stop' }
  /** Server: report every change of your state. */
  | { readonly kind: 'attach' }
  /** Server: leave, after the current job if there is one. */
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

/** Calls back with each line of a stream, without its end. */
export function onLines(stream: Readable, handle: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) handle(line);
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

/** Resolves when a socket is closed for any reason: `once` from `node:events` would reject if it fails first. */
export const isClosed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
