import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { servicePrefix } from '../contract/log-stream.js';
import { errorCode, faultWithoutPath, isDiskFull } from '../files/error-code.js';
import { syncTree } from '../files/sync-tree.js';
import { copyOutput } from './copy-output.js';
import { LogFile } from './log-file.js';
import { type OutputPipe, openOutputPipe } from './output-pipe.js';
import { lowerPriority } from './priority.js';
import { identify, type ProcessIdentity } from './process-table.js';
import type { RunEnd, RunRequest } from './protocol.js';
import { runInWorker } from './run-in-worker.js';
import { endInSandbox, readStatusOf, signalInside } from './sandboxed.js';
import { sandboxFault, startFault, startProgram } from './start-program.js';
import { signal, terminateGroup, terminateStrays } from './terminate.js';
import { type Excess, LimitWatch } from './watch-limits.js';

/** Milliseconds for the end of the pipe to be read; after that somebody still has it open. */
const closePatience = 50;
/** Milliseconds to read what is still in the pipe once every process of the job is gone. */
const drainPatience = 2000;

type CommandEnd = Pick<RunEnd, 'exitCode' | 'signal'> & Partial<Excess>;

/**
 * Starts the command and waits until it, and every process that it left in its group, has ended.
 * @throws the reason why it could not be started, in words
 */
async function runProgram(
  request: RunRequest,
  pipe: OutputPipe,
  stopped: AbortSignal,
  onStart: (command: ProcessIdentity) => void,
): Promise<CommandEnd> {
  let child: ChildProcess;
  try {
    const status = request.isSandboxed ? (['pipe'] as const) : [];
    child = startProgram(request, request.jobId, ['ignore', pipe.writeFd, pipe.writeFd, ...status]);
    await once(child, 'spawn');
    lowerPriority(child);
  } catch (cause) {
    throw new Error(startFault(request, cause), { cause });
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
  const watch = new LimitWatch(group, request.limits, () => signal(-group, 'SIGKILL'));
  await ended;
  watch.stop();
  await endGroup();
  // The runner may run another job, and this process id may be another process's then.
  stopped.removeEventListener('abort', endGroup);
  if (watch.excess !== null) return { exitCode: null, signal: 'SIGKILL', ...watch.excess };
  if (status === undefined || child.signalCode !== null) {
    return { exitCode: child.exitCode, signal: child.signalCode };
  }
  const code = await status;
  if (code === undefined) throw new Error(sandboxFault(request));
  return endInSandbox(code);
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

/** What a job's start has ready. */
export interface Prepared {
  /** The connection to the keeper of its worker, to which the job was sent; null without one. */
  readonly keeper: Socket | null;
  /** A FIFO that was made for its output before there was a job. */
  readonly fifo: string | undefined;
}

/** Runs a command that is started for this job. */
async function runStarted(
  request: RunRequest,
  log: LogFile,
  stop: AbortSignal,
  note: RunNote,
  fifo: string | undefined,
): Promise<CommandEnd> {
  const pipe = openOutputPipe(request.directory, fifo);
  const copied = copyOutput(pipe.reader, log);
  const end = await runProgram(request, pipe, stop, note).catch(
    (cause: Error): CommandEnd => ({ exitCode: null, signal: null, error: cause.message }),
  );
  // Nothing gets out of a sandbox, which is gone with its first process.
  if (!request.isSandboxed) {
    const isClosed = await Promise.race([
      copied.then(() => true),
      delay(closePatience, false, { ref: false }),
    ]);
    await terminateStrays(request.jobId, request.directory, isClosed ? 'marks' : 'everything', 'younger');
  }
  await Promise.race([copied, delay(drainPatience, undefined, { ref: false })]);
  pipe.reader.destroy();
  await copied;
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
  { keeper, fifo }: Prepared,
): Promise<RunEnd> {
  const log = new LogFile(logPath, request.maxLogBytes);
  const noting = onStartNoting(note);
  const inWorker: CommandEnd | null = await runInWorker(request, keeper, log, stop, noting);
  const end = inWorker ?? (await runStarted(request, log, stop, noting, fifo));
  let error = end.error ?? null;
  if (error !== null) log.append([servicePrefix + error]);
  log.close();
  const cause = end.exitCode === 0 && error === null ? await outputFault(request.output) : null;
  if (cause !== null) error = `The output could not be written to the disk: ${faultWithoutPath(cause)}`;
  const fault = isDiskFull(cause) ? 'diskFull' : (end.fault ?? null);
  return {
    exitCode: end.exitCode,
    signal: end.signal,
    error,
    fault,
    lostLines: log.lostLines,
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
    // A missing or replaced output directory is reported when it is packed.
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(cause))) return null;
    return cause;
  }
}
