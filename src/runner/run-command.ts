import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { servicePrefix } from '../contract/log-stream.js';
import { errorCode, faultWithoutPath, isDiskFull } from '../files/errors.js';
import { readOwnFile } from '../files/own-file.js';
import { isSignalable, readStatus } from '../files/process-status.js';
import { syncTree } from '../files/sync.js';
import { Cgroup } from './cgroup.js';
import { copyOutput, LogFile } from './log.js';
import { type InwardPipe, openOutputPipe } from './pipes.js';
import { identify, isAlive } from './process-table.js';
import {
  type HostMessage,
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

/** Milliseconds that a worker host may take to accept a job: it only says yes or no. */
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

/** The message of this kind that a worker host sends about a job; null if the connection is closed before it comes. */
function messageOf<Kind extends HostMessage['kind']>(socket: Socket, kind: Kind) {
  return new Promise<Extract<HostMessage, { kind: Kind }> | null>((resolve) => {
    onMessages(socket, (message) => {
      if (message.kind === kind) resolve(message as Extract<HostMessage, { kind: Kind }>);
    });
    void isClosed(socket).then(() => resolve(null));
  });
}

/** Ends what a killed worker host has left of its worker, in case there is no server to do it. */
async function endWorker({ worker, jobId, directory }: RunRequest, leader: ProcessIdentity): Promise<void> {
  // If the process id belongs to another process by now, the group is gone.
  if (!isSignalable(leader.pid) || isAlive(leader)) await terminateGroup(leader.pid, 0);
  await terminateStrays(jobId, directory);
  if (worker) await terminateStrays(worker.id, workerFiles(worker.directory).home);
}

/**
 * Sends a job to the worker host of its worker. Resolves when it is sent; the worker host's answer says whether it accepts the job.
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
    // It is gone, or has just started.
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
  const [accepted, ended] = [messageOf(socket, 'accepted'), messageOf(socket, 'end')];
  const asleep = setTimeout(() => wakeHost(worker.directory), wakePatience);
  const late = setTimeout(() => socket.destroy(), acceptPatience);
  const process = (await accepted)?.worker ?? null;
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
    // Reads what the worker host has sent first: if it is gone, writing to it would lose that.
    setImmediate(() => {
      sendMessage(socket, { kind: 'stop' });
    });
  };
  stop.addEventListener('abort', onStop, { once: true });
  if (stop.aborted) onStop();
  const end = (await ended)?.end ?? null;
  stop.removeEventListener('abort', onStop);
  socket.destroy();
  if (end === null) await endWorker(request, process);
  removeShortTemporary(request.jobId);
  note(null);
  const error = 'The process that keeps the app loaded was killed; the app was ended with it';
  return end ?? { ...noEnd, error };
}

/** Milliseconds to read what is still in the pipe once every process of the job is gone. */
const drainPatience = 2000;

type CommandEnd = Pick<RunEnd, 'exitCode' | 'signal'> & Partial<Excess & Usage & Pick<RunEnd, 'lostLines'>>;

/** The program was not started, for a reason that is a sentence. */
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
  // From now on the process id may belong to another process.
  stopped.removeEventListener('abort', endGroup);
  // The runner has no other children, so what the kernel counts for those that have ended is the command's.
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

/** Writes the command's process into the record; an error is ignored and the command goes on. */
const onStartNoting = (note: RunNote) => (command: ProcessIdentity | null) => {
  try {
    note(command);
  } catch {
    // The server then finds the job's processes by their environment and their pipe alone.
  }
};

/** Notes which process the job's command is; null for none. */
type RunNote = (command: ProcessIdentity | null) => void;

/** Runs a command that is started for this job. */
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
  // Nothing escapes from a sandbox, which ends with its first process.
  if (!request.isSandboxed) await terminateStrays(request.jobId, request.directory, 'younger');
  await Promise.race([copied, delay(drainPatience, undefined, { ref: false })]);
  pipe.reader.destroy();
  await copied;
  cgroup?.remove();
  return end;
}

/**
 * Runs one command to its end, in its worker if it has one. When the promise resolves, the log is complete, no process of
 * the job is left, and its output survives a power cut.
 * @param stop aborted to end the command: SIGTERM to its group, SIGKILL after the request's grace
 * @param note called with the command's process once it runs
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

/** Syncs the output to the disk. Returns the error if that failed, else null. */
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
