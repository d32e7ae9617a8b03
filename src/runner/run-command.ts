import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import path from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { servicePrefix } from '../contract/log-stream.js';
import { quoteName } from '../contract/quote.js';
import { errorCode, faultWithoutPath, isDiskFull } from '../files/error-code.js';
import { findProgram } from '../files/find-program.js';
import { syncTree } from '../files/sync-tree.js';
import { LineSplitter } from './line-splitter.js';
import { LogFile } from './log-file.js';
import { type OutputPipe, openOutputPipe } from './output-pipe.js';
import { asCommandLine } from './own-lines.js';
import { lowerPriority } from './priority.js';
import { identify, type ProcessIdentity } from './process-table.js';
import { jobMarker, type RunEnd, type RunRequest } from './protocol.js';
import { RedrawLimiter } from './redraws.js';
import { endInSandbox, readStatusOf, signalInside } from './sandboxed.js';
import { signal, terminateGroup, terminateStrays } from './terminate.js';
import { type Excess, LimitWatch } from './watch-limits.js';

/** Milliseconds after which a redraw that is held back is written, and a lone carriage return ends a line. */
const redrawPause = 250;
/** Milliseconds to read what is still in the pipe once every process of the job is gone. */
const drainPatience = 2000;

/** Copies the command's output into its log, until the last process has closed the pipe. */
function copyOutput(reader: Socket, log: LogFile): Promise<void> {
  const lines = new LineSplitter();
  const redraws = new RedrawLimiter();
  let pause: NodeJS.Timeout | undefined;
  reader.on('data', (chunk: Buffer) => {
    log.append(redraws.pass(lines.push(chunk).map(asCommandLine)));
    pause ??= setTimeout(() => {
      pause = undefined;
      log.append([...redraws.pass(lines.pause().map(asCommandLine)), ...redraws.flush()]);
    }, redrawPause).unref();
  });
  // A pipe that fails is treated as closed.
  reader.on('error', () => reader.destroy());
  return new Promise((resolve) => {
    reader.once('close', () => {
      clearTimeout(pause);
      log.append([...redraws.pass(lines.end().map(asCommandLine)), ...redraws.flush()]);
      resolve();
    });
  });
}

/**
 * Looks for a program that starts in a sandbox: bwrap would only say that there is none in there.
 * @throws ENOENT if it is nowhere on this machine
 */
function checkProgram({ isSandboxed, command: [program = ''] }: RunRequest): void {
  if (!isSandboxed || findProgram(program, process.env.PATH ?? '') !== undefined) return;
  throw Object.assign(new Error('No such program'), { code: 'ENOENT' });
}

function start(request: RunRequest, outputFd: number): ChildProcess {
  const [program = '', ...args] = [...request.wrapper, ...request.command];
  // Not execa: it would be loaded at the start of every job, and a command whose output goes to a descriptor and whose
  // whole group is signalled uses nothing that it adds.
  const inherited = Object.fromEntries(request.inherited.map((name) => [name, process.env[name]]));
  return spawn(program, args, {
    cwd: request.directory,
    env: { ...inherited, ...request.environment, [jobMarker]: request.jobId },
    stdio: ['ignore', outputFd, outputFd, ...(request.isSandboxed ? (['pipe'] as const) : [])],
    // A process group of its own, which can be signalled, and checked for being gone, as a whole.
    detached: true,
  });
}

/** What is wrong when bwrap did not come to start the command. It has printed why. */
function sandboxFault({ command: [program = ''] }: RunRequest): string {
  const name = quoteName(path.basename(program));
  return `Cannot start ${name} in its sandbox; the line of bwrap in the log says why. What an app needs beside its own directory is named with serve --bind`;
}

/** Names the program without its directory: clients must not see paths of the server. */
function startFault(request: RunRequest, cause: unknown): string {
  const name = quoteName(path.basename(request.command[0] ?? ''));
  const isMissing = errorCode(cause) === 'ENOENT';
  const why = isMissing ? 'there is no such program on the server' : faultWithoutPath(cause);
  return `Cannot start ${name}: ${why}`;
}

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
    checkProgram(request);
    child = start(request, pipe.writeFd);
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
  if (watch.excess !== null) return { exitCode: null, signal: 'SIGKILL', ...watch.excess };
  if (status === undefined || child.signalCode !== null) {
    return { exitCode: child.exitCode, signal: child.signalCode };
  }
  const code = await status;
  if (code === undefined) throw new Error(sandboxFault(request));
  return endInSandbox(code);
}

/** Writes the command's process into the record; an error is ignored and the command goes on. */
const onStartNoting = (note: (command: ProcessIdentity) => void) => (command: ProcessIdentity) => {
  try {
    note(command);
  } catch {
    // The server then finds the job's processes by their environment and their pipe alone.
  }
};

/**
 * Runs one command to its end. When the promise resolves, the log is complete, no process of the job is left, and its
 * output survives a power cut.
 * @param stop aborted to end the command: SIGTERM to its group, SIGKILL after the request's grace
 * @param note called with the command's process once it runs
 */
export async function runCommand(
  request: RunRequest,
  logPath: string,
  stop: AbortSignal,
  note: (command: ProcessIdentity) => void,
): Promise<RunEnd> {
  const log = new LogFile(logPath, request.maxLogBytes);
  const pipe = openOutputPipe(request.directory);
  const copied = copyOutput(pipe.reader, log);
  const end = await runProgram(request, pipe, stop, onStartNoting(note)).catch(
    (cause: Error): CommandEnd => ({ exitCode: null, signal: null, error: cause.message }),
  );
  let error = end.error ?? null;
  // Nothing gets out of a sandbox, which is gone with its first process.
  if (!request.isSandboxed) await terminateStrays(request.jobId, request.directory);
  await Promise.race([copied, delay(drainPatience, undefined, { ref: false })]);
  pipe.reader.destroy();
  await copied;
  if (error !== null) log.append([servicePrefix + error]);
  log.close();
  const cause = end.exitCode === 0 ? await outputFault(request.output) : null;
  if (cause !== null) error = `The output could not be written to the disk: ${faultWithoutPath(cause)}`;
  const fault = isDiskFull(cause) ? 'diskFull' : (end.fault ?? null);
  return { ...end, error, fault, lostLines: log.lostLines, endedAt: new Date().toISOString() };
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
