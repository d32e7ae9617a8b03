import path from 'node:path';
import { openDirectory } from '../files/own-file.js';
import type { ProcessIdentity } from './process-table.js';
import type { RunEnd, RunRequest } from './protocol.js';

/** `worker.json`: what the server asks a keeper to do. */
export interface WorkerRequest
  extends Pick<
    RunRequest,
    'command' | 'wrapper' | 'isSandboxed' | 'filter' | 'limits' | 'inherited' | 'environment' | 'killGrace'
  > {
  readonly id: string;
  /** Whether each job has to be shown to its sandbox, which is there before it. */
  readonly hasStage: boolean;
  /** Milliseconds after which it leaves if it has no job and there is no server. */
  readonly idle: number;
  /** What it is for: jobs of the same app, devices and owner. */
  readonly place: string;
  /** What it was started with: a job may use it only if it would be started with the same. */
  readonly content: string;
  /** The app, for people. */
  readonly name: string;
  /** Whose jobs it is for; null for the admin's. */
  readonly owner: string | null;
  readonly gpus: readonly number[];
  readonly gpuUuids: readonly string[];
  /** Files and directories of the app, and what they were like when it was started. */
  readonly watched: readonly string[];
  readonly seen: string;
}

/** `keeper.json`: the processes of keeper and worker. */
export interface KeeperRecord {
  readonly keeper: ProcessIdentity;
  /** The leader of the worker's process group; null until it is started. */
  readonly worker: ProcessIdentity | null;
}

/** What a keeper tells the server. */
export interface KeeperState {
  readonly state: 'loading' | 'idle' | 'busy' | 'leaving';
  /** The job that it has. */
  readonly job: string | null;
}

/** How a job in a worker ended, as its runner is told. */
export type WorkerEnd = Pick<RunEnd, 'exitCode' | 'signal' | 'error' | 'fault'> & {
  /** A line for the job's log, if there is more to say. */
  readonly note: string | null;
};

/** The files of a keeper. */
export const workerFiles = (directory: string) => ({
  request: path.join(directory, 'worker.json'),
  record: path.join(directory, 'keeper.json'),
  socket: path.join(directory, 'socket'),
  /** The worker's working directory between two jobs. */
  home: path.join(directory, 'home'),
  temporary: path.join(directory, 'home', 'tmp'),
  /** What its sandbox shows of the jobs, if it has one. */
  stage: path.join(directory, 'stage'),
});

/** The FIFO that a worker writes its answers into. It is unlinked as soon as it is open. */
export const answersFifo = (home: string): string => path.join(home, 'answers.fifo');

/** The same for its stdin. */
export const jobsFifo = (home: string): string => path.join(home, 'jobs.fifo');

/** The variable that names the file for a worker's answers, and what it names: the descriptor that the keeper gives it. */
export const answersVariable = 'REMOTE_APP_ANSWERS';
export const answersFile = '/dev/fd/3';

/** Longest path of a socket, in bytes: the system's limit, less room for the end. */
const longestAddress = 100;

/**
 * Calls a function with an address of a keeper's socket that the system takes: a long path is replaced by one through an
 * open directory.
 */
export function withSocketAddress<T>(directory: string, use: (address: string) => T): T {
  const { socket } = workerFiles(directory);
  if (Buffer.byteLength(socket) <= longestAddress) return use(socket);
  using opened = openDirectory(directory);
  return use(path.join(opened.path, path.basename(socket)));
}
