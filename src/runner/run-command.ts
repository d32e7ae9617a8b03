import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { servicePrefix } from '../contract/log-stream.js';
import { deferred } from '../files/deferred.js';
import { errorCode, faultWithoutPath, isDiskFull } from '../files/errors.js';
import { readOwnFile } from '../files/own-file.js';
import { isSignalable, readStatus } from '../files/process-status.js';
import { syncTree } from '../files/sync.js';
import { Cgroup } from './cgroup.js';
import { copyOutput, LogFile } from './log.js';
import { type InwardPipe, openOutputPipe } from './pipes.js';
import { identify, isAlive } from './process-table.js';
import {
  isClosed,
  onMessages,
  type ProcessIdentity,
  type RunEnd,
  type RunRequest,
  sendMessage,
  type Usage,
  unknownUsage,
  type WorkerCall,
  type WorkerEnd,
  type WorkerHostRecord,
  withSocketAddress,
  workerFiles,
} from './protocol.js';
import { endOfCode, readStatusOf, signalInside } from './sandboxed.js';
import {
  lowerPriority,
  removeShortTemporary,
  sandboxFault,
  shortTemporary,
  startFault,
  startProgram,
} from './start-program.js';
import { signal, terminateGroup, terminateStrays } from './terminate.js';
import { type Excess, memoryExcess, UsageWatch } from './usage.js';

/** Milliseconds that a worker host is given to accept a job: it only says yes or no. */
const acceptPatience = 60_000;
/** Milliseconds after which a worker host that does not answer is assumed to be stopped, and is continued. */
const wakePatience = 1000;
/** Maximum size in bytes of `host.json`. */
const maxRecordBytes = 4096;

/** What is known of a job whose worker has not told its end. */
const noEnd: WorkerEnd = {
  ...{ exitCode: null, signal: null, error: null, fault: null, lostLines: 0 },
  ...unknownUsage,
};

const workerIsGone = `${servicePrefix}The worker is gone: the app is started for this job alone`;

/**
 * What a worker host reports about a job: the process that accepted it, and how it ended. Either is null if the connection is
 * closed before.
 */
function reportsOf(socket: Socket) {
  const [accepted, ended] = [deferred<ProcessIdentity | null>(), deferred<WorkerEnd | null>()];
  onMessages(socket, (message) => {
    if (message.kind === 'accepted') accepted.resolve(message.worker);
    if (message.kind === 'end') ended.resolve(message.end);
  });
  void isClosed(socket).then(() => {
    accepted.resolve(null);
    ended.resolve(null);
  });
  return { accepted: accepted.promise, ended: ended.promise };
}

/** Ends what a killed worker host left of its worker, in case no server does so. */
async function endWorker({ worker, jobId, directory }: RunRequest, leader: ProcessIdentity): Promise<void> {
  // If another process has this id by now, the group is gone.
  if (!isSignalable(leader.pid) || isAlive(leader)) await terminateGroup(leader.pid, 0);
  await terminateStrays(jobId, directory);
  if (worker) await terminateStrays(worker.id, workerFiles(worker.directory).home);
}

/**
 * Sends a job to the host of its worker. Resolves when the job is sent; the worker host's answer says whether it is accepted.
 * @returns the connection; null if there is no worker host
 */
async function sendToWorker(
  request: RunRequest,
  worker: WorkerCall,
  { path: log, maxBytes: maxLogBytes }: LogFile,
): Promise<Socket | null> {
  const { jobId, directory, isSandboxed } = request;
  try {
    const socket = withSocketAddress(worker.directory, (address) => connect(address));
    socket.on('error', () => {});
    const { TMPDIR: temporary } = worker.environment;
    const short = temporary === undefined || isSandboxed ? {} : { TMPDIR: shortTemporary(jobId, temporary) };
    const environment = { ...worker.environment, ...short };
    const call = { job: jobId, arguments: worker.arguments, directory, environment };
    sendMessage(socket, { kind: 'job', call, log, maxLogBytes });
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    return socket;
  } catch {
    return null;
  }
}

/** Sends SIGCONT to the worker host, in case it was stopped. Never throws. */
function wakeHost(directory: string): void {
  try {
    const text = readOwnFile(workerFiles(directory).record, maxRecordBytes);
    const { host } = JSON.parse(text ?? '') as WorkerHostRecord;
    if (isAlive(host)) signal(host.pid, 'SIGCONT');
  } catch {
    // The worker host is gone, or has only just started.
  }
}

/**
 * Gives a job to its worker, whose host writes its output into the log, and waits for its end.
 * @param note called with the worker's process, and with null when that is done with the job
 * @returns null if no worker accepts it; nothing was run then
 */
async function runInWorker(
  request: RunRequest,
  log: LogFile,
  stop: AbortSignal,
  note: RunNote,
): Promise<WorkerEnd | null> {
  const { worker } = request;
  if (!worker) return null;
  const socket = await sendToWorker(request, worker, log);
  if (!socket) {
    log.append([workerIsGone]);
    return null;
  }
  const { accepted, ended } = reportsOf(socket);
  const asleep = setTimeout(() => wakeHost(worker.directory), wakePatience);
  const late = setTimeout(() => socket.destroy(), acceptPatience);
  const process = await accepted;
  clearTimeout(asleep);
  clearTimeout(late);
  if (process === null) {
    socket.destroy();
    if (stop.aborted) return { ...noEnd, signal: 'SIGTERM' };
    log.append([workerIsGone]);
    return null;
  }
  note(process);
  const onStop = () => {
    wakeHost(worker.directory);
    // First reads what the worker host has already sent: if the worker host is gone, a failed write would lose that.
    setImmediate(() => {
      sendMessage(socket, { kind: 'stop' });
    });
  };
  stop.addEventListener('abort', onStop, { once: true });
  if (stop.aborted) onStop();
  const end = await ended;
  stop.removeEventListener('abort', onStop);
  socket.destroy();
  if (end === null) await endWorker(request, process);
  removeShortTemporary(request.jobId);
  note(null);
  const error = 'The process that keeps the app loaded was killed; the app was ended with it';
  return end ?? { ...noEnd, error };
}

/** Milliseconds for reading what is left in the pipe once all processes of the job are gone. */
const drainPatience = 2000;

type CommandEnd = Pick<RunEnd, 'exitCode' | 'signal'> & Partial<Excess & Usage & Pick<RunEnd, 'lostLines'>>;

/** The program was not started. The message is a sentence that says why. */
class NotStarted extends Error {}

/**
 * Starts the command and waits until it, and every process that it left in its group, has ended.
 * @throws NotStarted
 */
async function runProgram(
  request: RunRequest,
  cgroup: Cgroup | null,
  pipe: InwardPipe,
  stopped: AbortSignal,
  onStart: (command: ProcessIdentity) => void,
): Promise<CommandEnd> {
  let child: ChildProcess;
  try {
    const status = request.isSandboxed ? (['pipe'] as const) : [];
    const wrapper = [...(cgroup?.words ?? []), ...request.wrapper];
    child = startProgram({ ...request, wrapper }, request.jobId, [
      'ignore',
      pipe.writeFd,
      pipe.writeFd,
      ...status,
    ]);
    await once(child, 'spawn');
    lowerPriority(child);
  } catch (cause) {
    throw new NotStarted(startFault(request, cause), { cause });
  } finally {
    pipe.release();
  }
  const group = child.pid ?? 0;
  onStart(identify(group));
  const ended = once(child, 'exit');
  const status = child.stdio[3] instanceof Readable ? readStatusOf(child.stdio[3]) : undefined;
  const endGroup = () =>
    terminateGroup(group, request.killGrace, status && ((leader) => signalInside(leader, 'SIGTERM')));
  stopped.addEventListener('abort', endGroup, { once: true });
  if (stopped.aborted) endGroup();
  const watch = new UsageWatch(group, request, () => signal(-group, 'SIGKILL'));
  await ended;
  watch.stop();
  await endGroup();
  // From now on, another process may have this id.
  stopped.removeEventListener('abort', endGroup);
  // The command is the runner's only child, so the kernel's count for ended children is that of the command.
  const usage = watch.usage(readStatus(process.pid)?.childTicks);
  if (cgroup?.hasRunOut) {
    const { memory } = request.limits;
    return { exitCode: null, signal: 'SIGKILL', ...usage, ...memoryExcess(memory ?? 0), peakMemory: memory };
  }
  if (watch.excess !== null) return { exitCode: null, signal: 'SIGKILL', ...watch.excess, ...usage };
  if (child.signalCode !== null) return { exitCode: null, signal: child.signalCode, ...usage };
  const code = status === undefined ? (child.exitCode ?? 0) : await status;
  if (code === undefined) throw new NotStarted(sandboxFault(request));
  return { exitCode: code, signal: null, ...usage };
}

/** Writes the command's process to the record. If that fails, the error is ignored and the command continues. */
const onStartNoting = (note: RunNote) => (command: ProcessIdentity | null) => {
  try {
    note(command);
  } catch {
    // Without the record, the server finds the job's processes by their environment and their pipe.
  }
};

/** Records which process is the job's command; null for none. */
type RunNote = (command: ProcessIdentity | null) => void;

/** Runs a command that is started just for this job. */
async function runStarted(
  request: RunRequest,
  log: LogFile,
  stop: AbortSignal,
  note: RunNote,
): Promise<CommandEnd> {
  const pipe = openOutputPipe(request.directory);
  const copied = copyOutput(pipe.reader, log);
  const { cgroup: directory, limits } = request;
  const cgroup =
    directory === undefined || limits.memory === null ? null : Cgroup.make(directory, limits.memory);
  const end = await runProgram(request, cgroup, pipe, stop, note).catch(
    (cause: Error): CommandEnd => ({
      exitCode: null,
      signal: null,
      error: cause.message,
      fault: cause instanceof NotStarted ? 'notStarted' : null,
    }),
  );
  // No process escapes from a sandbox, because they all end with its first process.
  if (!request.isSandboxed) await terminateStrays(request.jobId, request.directory, 'younger');
  await Promise.race([copied, delay(drainPatience, undefined, { ref: false })]);
  pipe.reader.destroy();
  await copied;
  cgroup?.remove();
  return end;
}

/**
 * Runs one command to its end, in its worker if it has one. When the promise resolves, the log is complete, no process of the job
 * is left, and the output survives a power cut.
 * @param stop aborted to end the command: its group gets SIGTERM, and SIGKILL after the grace period in the request
 * @param note called with the command's process once it is running
 */
export async function runCommand(
  request: RunRequest,
  logPath: string,
  stop: AbortSignal,
  note: RunNote,
): Promise<RunEnd> {
  const log = new LogFile(logPath, request.maxLogBytes);
  const noting = onStartNoting(note);
  const inWorker: CommandEnd | null = await runInWorker(request, log, stop, noting);
  const end = inWorker ?? (await runStarted(request, log, stop, noting));
  let error = end.error ?? null;
  if (error !== null) log.append([servicePrefix + error]);
  log.close();
  const cause = end.exitCode === 0 && error === null ? await outputFault(request.output) : null;
  if (cause !== null) error = `The output could not be written to the disk: ${faultWithoutPath(cause)}`;
  const fault = isDiskFull(cause) ? 'diskFull' : (end.fault ?? null);
  return {
    ...(end.exitCode === null ? { exitCode: null, signal: end.signal } : endOfCode(end.exitCode)),
    error,
    fault,
    lostLines: log.lostLines + (end.lostLines ?? 0),
    peakMemory: end.peakMemory ?? null,
    cpuSeconds: end.cpuSeconds ?? null,
    wasAlone: request.worker !== undefined && inWorker === null,
    endedAt: new Date().toISOString(),
  };
}

/** Syncs the output to disk. Returns the error if that failed, otherwise null. */
async function outputFault(output: string): Promise<unknown> {
  try {
    await syncTree(output);
    return null;
  } catch (cause) {
    // A missing or replaced output directory is reported when the output is packed.
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(cause))) return null;
    return cause;
  }
}
