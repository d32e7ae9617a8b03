import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { servicePrefix } from '../contract/log-stream.js';
import { LineSplitter } from './lines.js';
import { LogFile } from './log-file.js';
import { type OutputPipe, openOutputPipe } from './output-pipe.js';
import { lowerPriority } from './priority.js';
import { jobMarker, type RunEnd, type RunRequest } from './protocol.js';
import { RedrawLimiter } from './redraws.js';
import { terminateGroup, terminateStrays } from './terminate.js';

/** Milliseconds after which a redraw that was held back is shown, when nothing else came. */
const redrawPause = 250;
/** Milliseconds to read what is still in the pipe once every process of the job is gone. */
const drainPatience = 2000;

/** Copies what the command prints into its log, until the last process has closed the pipe. */
function copyOutput(reader: Socket, log: LogFile, onFault: (cause: Error) => void): Promise<void> {
  const lines = new LineSplitter();
  const redraws = new RedrawLimiter();
  let fault = false;
  const write = (texts: readonly string[]) => {
    if (fault) return;
    try {
      log.append(texts);
    } catch (cause) {
      // What is printed from here on is read and dropped, so that the command can end.
      fault = true;
      onFault(cause as Error);
    }
  };
  let pause: NodeJS.Timeout | undefined;
  reader.on('data', (chunk: Buffer) => {
    write(redraws.pass(lines.push(chunk)));
    pause ??= setTimeout(() => {
      pause = undefined;
      write(redraws.flush());
    }, redrawPause).unref();
  });
  reader.on('error', onFault);
  return new Promise((resolve) => {
    reader.once('close', () => {
      clearTimeout(pause);
      write([...redraws.pass(lines.end()), ...redraws.flush()]);
      resolve();
    });
  });
}

function start(request: RunRequest, outputFd: number): ChildProcess {
  const [program = '', ...args] = request.command;
  return spawn(program, args, {
    cwd: request.directory,
    env: { ...process.env, ...request.environment, [jobMarker]: request.jobId },
    stdio: ['ignore', outputFd, outputFd],
    // A group of its own: it is signalled, and seen to be gone, as a whole.
    detached: true,
  });
}

const startFault = (request: RunRequest, cause: NodeJS.ErrnoException): string =>
  cause.code === 'ENOENT'
    ? `Cannot start '${request.command[0]}': there is no such program on the server`
    : `Cannot start '${request.command[0]}': ${cause.message}`;

/**
 * Starts the command and waits until it, and every process that it left in its group, has ended.
 * @throws the reason why it could not be started, in words
 */
async function runProgram(
  request: RunRequest,
  pipe: OutputPipe,
  stopped: AbortSignal,
): Promise<Pick<RunEnd, 'exitCode' | 'signal'>> {
  let child: ChildProcess;
  try {
    child = start(request, pipe.writeFd);
    await once(child, 'spawn');
    lowerPriority(child);
  } catch (cause) {
    throw new Error(startFault(request, cause as NodeJS.ErrnoException), { cause });
  } finally {
    pipe.release();
  }
  const group = child.pid ?? 0;
  const ended = once(child, 'exit');
  const endGroup = () => terminateGroup(group, request.killGrace);
  stopped.addEventListener('abort', endGroup, { once: true });
  if (stopped.aborted) endGroup();
  await ended;
  await endGroup();
  return { exitCode: child.exitCode, signal: child.signalCode };
}

/**
 * Runs one command to its end: the log is whole, and no process of the job is left, when the promise resolves.
 * @param stop aborted to end the command: SIGTERM to its group, SIGKILL after the request's grace
 */
export async function runCommand(request: RunRequest, logPath: string, stop: AbortSignal): Promise<RunEnd> {
  const log = new LogFile(logPath, request.maxLogBytes);
  const pipe = openOutputPipe(request.directory);
  const fault = new AbortController();
  let error: string | null = null;
  const copied = copyOutput(pipe.reader, log, (cause) => {
    error ??= `The log could not be written: ${cause.message}`;
    fault.abort();
  });
  const end = await runProgram(request, pipe, AbortSignal.any([stop, fault.signal])).catch((cause: Error) => {
    error = cause.message;
    return { exitCode: null, signal: null };
  });
  await terminateStrays(request.jobId, request.directory);
  await Promise.race([copied, delay(drainPatience, undefined, { ref: false })]);
  pipe.reader.destroy();
  await copied;
  try {
    if (error !== null) log.append([servicePrefix + error]);
    log.close();
  } catch (cause) {
    error ??= `The log could not be written: ${(cause as Error).message}`;
  }
  return { ...end, error, endedAt: new Date().toISOString() };
}
