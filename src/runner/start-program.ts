import { type ChildProcess, type StdioOptions, spawn, spawnSync } from 'node:child_process';
import { lstatSync, readlinkSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { counted, quoteName, shellQuoted } from '../contract/text.js';
import { errorCode, faultWithoutPath, orElse } from '../files/errors.js';
import { findProgram, startError } from '../files/find-program.js';
import { jobMarker, type RunRequest } from './protocol.js';

/** bwrap takes at most 9000 words, including its own. */
const maxWords = 8000;
/**
 * A piece of a text that does not split a character. Linux takes less than 128 KiB for a word; a character has up to 4
 * bytes.
 */
const part = /.{1,30000}/gsu;

/** Joins the parts of a command, and replaces the shell by it. */
const script = 'IFS=; eval "exec $*"';

/** Whether a command has too many words for bwrap, and is passed as parts of one text. */
const hasManyWords = (wrapper: readonly string[], command: readonly string[]): boolean =>
  wrapper.length + command.length > maxWords;

/** A short shell command that runs a very long one, expanding nothing in it. */
const inFewWords = (command: readonly string[]): string[] => [
  '/bin/sh',
  '-c',
  script,
  'sh',
  ...(command.map(shellQuoted).join(' ').match(part) ?? []),
];

/**
 * Maximum size in bytes of the path of a directory for temporary files. A socket's path has at most 107: that leaves 37, of which Python's
 * `multiprocessing` needs 32 and PyTorch 34.
 */
const maxDirectory = 70;

/**
 * In `/tmp`, which is sticky, or in the directory that systemd gives to a service: a unit may make `/tmp` read-only. Other
 * users can replace neither.
 */
function linkOf(id: string): string {
  const [own = ''] = (process.env.RUNTIME_DIRECTORY ?? '').split(':');
  return own === '' ? `/tmp/remote-app-${id}` : path.join(own, id);
}

/** The target of a link of this user; undefined for anything else. */
const targetOf = (link: string): string | undefined =>
  orElse(() => (lstatSync(link).uid === process.geteuid?.() ? readlinkSync(link) : undefined), undefined);

/**
 * A path of the directory for temporary files that is short enough for sockets in it: its own, or a link to it. The
 * files themselves stay in the job's directory, where they count towards its limit and are removed with it.
 * @param id of the job, or of the worker
 * @returns the long path where the link can't be made
 */
export function shortTemporary(id: string, directory: string): string {
  if (Buffer.byteLength(directory) <= maxDirectory) return directory;
  const link = linkOf(id);
  try {
    symlinkSync(directory, link);
    return link;
  } catch {
    return targetOf(link) === directory ? link : directory;
  }
}

/** Removes the link, if there is one and it is this user's. */
export function removeShortTemporary(id: string): void {
  const link = linkOf(id);
  if (targetOf(link) === undefined) return;
  try {
    unlinkSync(link);
  } catch {
    // A dangling link is harmless.
  }
}

/**
 * The lowest priority. Fifty jobs that print at full speed are a hundred busy processes; with a higher priority they make
 * the server answer late (bench row `live-logs`). Runner and command have the same priority, because a busy command would
 * otherwise delay its own log.
 */
const niceness = constants.priority.PRIORITY_LOW;

/** Milliseconds at normal priority, so that a start, or a short job, is not slowed down by other work on the machine. */
const headStart = 1000;

/** Maximum milliseconds until the next attempt, if another process was first. */
const retryPause = 400;
/** Number of attempts. The system allows ten such writes a second: this is enough for a hundred processes. */
const retries = 100;

/**
 * Lowers the priority of a child that was just started, and of its children, below the server's.
 * The child must be started detached: with Linux's autogroups (sched(7)) niceness counts only within a session, so the
 * priority of its whole session is lowered as well, after a head start.
 */
export function lowerPriority(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    // Must be set at once: only threads and children that start later inherit it.
    setPriority(child.pid, niceness);
  } catch {
    // The child has ended, or the system does not allow it: the job runs at normal priority.
  }
  setTimeout(() => lowerSession(child, retries), headStart).unref();
}

function lowerSession(child: ChildProcess, attempts: number): void {
  // The process id of an ended child may belong to another process.
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    writeFileSync(`/proc/${child.pid}/autogroup`, String(niceness));
  } catch (cause) {
    // Without privileges the system allows one such write in 100 ms, for all processes together. Any other error means
    // that the system has no autogroups, and there niceness is enough.
    if (errorCode(cause) !== 'EAGAIN' || attempts === 0) return;
    setTimeout(() => lowerSession(child, attempts - 1), Math.random() * retryPause).unref();
  }
}

/** What to start. */
type Startable = Pick<
  RunRequest,
  'command' | 'wrapper' | 'isSandboxed' | 'filter' | 'inherited' | 'environment' | 'directory'
>;

/**
 * Checks that a program for a sandbox exists: bwrap's own message would be less clear.
 * @throws ENOENT if it is nowhere on this machine
 */
function checkProgram({ isSandboxed, command: [program = ''] }: Startable): void {
  if (!isSandboxed || findProgram(program, process.env.PATH ?? '') !== undefined) return;
  throw Object.assign(new Error('No such program'), { code: 'ENOENT' });
}

/**
 * Starts a shell that does nothing, with the words and variables of a command. This is the only way to find out
 * beforehand that they are too long for the system.
 * @throws E2BIG if they are too long
 */
function checkLength(command: readonly string[], env: NodeJS.ProcessEnv): void {
  const { error } = spawnSync('/bin/sh', ['-c', ':', ...command], { env, stdio: 'ignore' });
  if (error) throw error;
}

/** Writes the filter to the pipe from which bwrap reads it, and closes the pipe. */
function giveFilter(filter: string, { stdio }: ChildProcess): void {
  // The pipe is missing if the program could not be started, and the whole list if there were not enough descriptors.
  const pipe: unknown = [...(stdio ?? [])].at(-1);
  if (!(pipe instanceof Writable)) return;
  // bwrap may have ended already.
  pipe.on('error', () => {});
  pipe.end(filter, 'base64', () => pipe.destroy());
}

/**
 * Starts a command in its own process group, so that all of it can be signalled at once.
 * @param marker the id that marks its processes
 * @throws ENOENT if there is no such program for a sandbox, E2BIG if its command line is too long; other errors are those
 *   of the child
 */
export function startProgram(
  request: Startable,
  marker: string,
  stdio: Extract<StdioOptions, unknown[]>,
): ChildProcess {
  checkProgram(request);
  const { wrapper, command, directory, filter } = request;
  const inherited = Object.fromEntries(request.inherited.map((name) => [name, process.env[name]]));
  const { TMPDIR: temporary } = request.environment;
  const env = {
    ...inherited,
    ...request.environment,
    ...(temporary === undefined || request.isSandboxed ? {} : { TMPDIR: shortTemporary(marker, temporary) }),
    [jobMarker]: marker,
  };
  const isInParts = request.isSandboxed && hasManyWords(wrapper, command);
  // bwrap sets PWD itself.
  if (isInParts) checkLength(command, { ...env, PWD: directory });
  const [program = '', ...args] = [...wrapper, ...(isInParts ? inFewWords(command) : command)];
  const all = filter === undefined ? stdio : [...stdio, 'pipe' as const];
  const child = spawn(program, args, { cwd: directory, env, stdio: all, detached: true });
  if (filter !== undefined) giveFilter(filter, child);
  return child;
}

/** The message if bwrap could not start the command. bwrap has printed the reason. */
export function sandboxFault({ command: [program = ''] }: Pick<Startable, 'command'>): string {
  const name = quoteName(path.basename(program));
  return `Cannot start ${name} in its sandbox; the line of bwrap in the log says why. What an app needs beside its own directory is named with serve --bind`;
}

/** How the log refers to this machine: Slurm tells the batch script the name of its node. */
const thisMachine = (): string => {
  const node = process.env.SLURMD_NODENAME;
  return node === undefined ? 'the server' : `node ${quoteName(node)}`;
};

/** Why a program cannot be started, and what can be done about it. */
function whyNotStarted(command: readonly string[], cause: unknown): string {
  switch (errorCode(cause)) {
    case 'ENOENT':
      return `there is no such program on ${thisMachine()}`;
    case 'E2BIG':
      return `its command line of ${counted(command.length, 'word')} is longer than the system allows (E2BIG). Each file and each value is a word of it: send fewer files and values, or files with shorter names`;
    default:
      return faultWithoutPath(cause);
  }
}

/** Only the program's name, because clients must not see paths of the server. */
export function startFault({ command }: Pick<Startable, 'command'>, cause: unknown): string {
  const [program = ''] = command;
  const why = whyNotStarted(command, startError(cause, program, process.env.PATH ?? ''));
  return `Cannot start ${quoteName(path.basename(program))}: ${why}`;
}
