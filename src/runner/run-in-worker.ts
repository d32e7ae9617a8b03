import { connect, type Socket } from 'node:net';
import { servicePrefix } from '../contract/log-stream.js';
import { readOwnFile } from '../files/own-file.js';
import { OutputLog } from './copy-output.js';
import { FrameReader, frameKinds, sendFrame } from './frames.js';
import type { LogFile } from './log-file.js';
import { isAlive, isSignalable, type ProcessIdentity } from './process-table.js';
import type { RunEnd, RunRequest } from './protocol.js';
import { removeShortTemporary, shortTemporary } from './temporary.js';
import { signal, terminateGroup, terminateStrays } from './terminate.js';
import { type KeeperRecord, type WorkerEnd, withSocketAddress, workerFiles } from './worker-files.js';

/** Milliseconds that a keeper may take to take the job: it only says yes or no. */
const acceptPatience = 60_000;
/** Milliseconds after which a keeper that has not answered is taken for a stopped one, and continued. */
const wakePatience = 1000;
/** Longest `keeper.json`, in bytes. */
const maxRecordBytes = 4096;

/** How a job ended that a keeper had. */
type EndInWorker = Pick<RunEnd, 'exitCode' | 'signal' | 'error' | 'fault'>;

/** What a keeper has said about a job. */
interface Answers {
  /** Resolves with the worker's process once it has the job; with null if it does not take it. */
  readonly accepted: Promise<ProcessIdentity | null>;
  /** Resolves with null if the keeper is gone. */
  readonly ended: Promise<WorkerEnd | null>;
}

function listen(socket: Socket, output: OutputLog): Answers {
  const frames = new FrameReader();
  let takes = (_: ProcessIdentity | null) => {};
  let ends = (_: WorkerEnd | null) => {};
  const accepted = new Promise<ProcessIdentity | null>((resolve) => {
    takes = resolve;
  });
  const ended = new Promise<WorkerEnd | null>((resolve) => {
    ends = resolve;
  });
  const read = (chunk: Buffer) => {
    for (const { kind, payload } of frames.push(chunk)) {
      if (kind === frameKinds.output) output.push(payload);
      else if (kind === frameKinds.accepted) takes(JSON.parse(`${payload}`) as ProcessIdentity);
      else if (kind === frameKinds.refused) takes(null);
      else if (kind === frameKinds.end) ends(JSON.parse(`${payload}`) as WorkerEnd);
    }
  };
  socket.on('data', (chunk: Buffer) => {
    try {
      read(chunk);
    } catch {
      // Not a keeper of ours.
      socket.destroy();
    }
  });
  const closed = () => {
    takes(null);
    ends(null);
  };
  if (socket.closed) closed();
  else socket.once('close', closed);
  return { accepted, ended };
}

/** Ends what a keeper that was killed has left of its worker: nobody else may be there to do it. */
async function endWorker({ worker, jobId, directory }: RunRequest, leader: ProcessIdentity): Promise<void> {
  // If the process id belongs to another process by now, the group is gone.
  if (!isSignalable(leader.pid) || isAlive(leader)) await terminateGroup(leader.pid, 0);
  await terminateStrays(jobId, directory);
  if (worker) await terminateStrays(worker.id, workerFiles(worker.directory).home);
}

/**
 * Sends a job to the keeper of its worker. Resolves when it is sent, which says nothing about whether it arrives: a keeper that is
 * gone is seen when its answer is awaited.
 * @returns the connection; null where the job has no worker
 */
export async function sendToKeeper(request: RunRequest): Promise<Socket | null> {
  const { worker, jobId, directory, isSandboxed } = request;
  if (!worker) return null;
  try {
    const socket = withSocketAddress(worker.directory, (address) => connect(address));
    socket.on('error', () => {});
    const { TMPDIR: temporary } = worker.environment;
    const short = temporary === undefined || isSandboxed ? {} : { TMPDIR: shortTemporary(jobId, temporary) };
    const environment = { ...worker.environment, ...short };
    const call = { job: jobId, arguments: worker.arguments, directory, environment };
    sendFrame(socket, frameKinds.job, JSON.stringify(call));
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    return socket;
  } catch {
    return null;
  }
}

/** Continues the keeper if it was stopped: it hears nothing then. Never throws. */
function wakeKeeper(directory: string): void {
  try {
    const text = readOwnFile(workerFiles(directory).record, maxRecordBytes);
    const { keeper } = JSON.parse(text ?? '') as KeeperRecord;
    if (isAlive(keeper)) signal(keeper.pid, 'SIGCONT');
  } catch {
    // It is gone, or has only begun.
  }
}

/**
 * Waits until the worker has taken the job that was sent to it, and for its end, with its output in the log.
 * @param socket that of the worker's keeper
 * @param note called with the worker's process, and with null when it has nothing to do with the job any more
 * @returns null if there is no worker that takes it: nothing was run then
 */
export async function runInWorker(
  request: RunRequest,
  socket: Socket | null,
  log: LogFile,
  stop: AbortSignal,
  note: (worker: ProcessIdentity | null) => void,
): Promise<EndInWorker | null> {
  const { worker } = request;
  if (!worker || !socket) return null;
  const output = new OutputLog(log);
  const answers = listen(socket, output);
  const asleep = setTimeout(() => wakeKeeper(worker.directory), wakePatience);
  const late = setTimeout(() => socket.destroy(), acceptPatience);
  const process = await answers.accepted;
  clearTimeout(asleep);
  clearTimeout(late);
  if (process === null) {
    socket.destroy();
    if (stop.aborted) return { exitCode: null, signal: 'SIGTERM', error: null, fault: null };
    log.append([`${servicePrefix}The loaded app is gone: it is started for this job alone`]);
    return null;
  }
  note(process);
  const onStop = () => {
    wakeKeeper(worker.directory);
    // First what the keeper has said by now is read: where it is gone, writing to it would lose that.
    setImmediate(() => {
      if (!socket.destroyed) sendFrame(socket, frameKinds.stop);
    });
  };
  stop.addEventListener('abort', onStop, { once: true });
  if (stop.aborted) onStop();
  const end = await answers.ended;
  stop.removeEventListener('abort', onStop);
  socket.destroy();
  if (end === null) await endWorker(request, process);
  removeShortTemporary(request.jobId);
  note(null);
  output.end();
  if (end === null) {
    const error = 'The process that keeps the app loaded was killed; the app was ended with it';
    return { exitCode: null, signal: null, error, fault: null };
  }
  if (end.note !== null) log.append([servicePrefix + end.note]);
  const { exitCode, signal, error, fault } = end;
  return { exitCode, signal, error, fault };
}
