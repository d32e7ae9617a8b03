import { type ChildProcess, type StdioOptions, spawn, spawnSync } from 'node:child_process';
import { lstatSync, readlinkSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { counted, quoteName, shellQuoted } from '../contract/text.js';
import { errorCode, faultWithoutPath, orElse } from '../files/errors.js';
import { findProgram, startError } from '../files/find-program.js';
import { jobMarker, type RunRequest } from './protocol.js';

/** Maximum number of words in a command line for bwrap, which takes 9000 including its own. */
const maxWords = 8000;
/**
 * Matches a piece of a text without splitting a character. Linux allows less than 128 KiB per argument, and a character has up to
 * 4 bytes.
 */
const part = /.{1,30000}/gsu;

/** Shell script that joins the pieces of a command, and replaces the shell with that command. */
const script = 'IFS=; eval "exec $*"';

/** Whether a command has too many words for bwrap and must be passed as pieces of one text. */
const hasManyWords = (wrapper: readonly string[], command: readonly string[]): boolean =>
  wrapper.length + command.length > maxWords;

/** A shell command with few words that runs one with very many, without expanding anything in it. */
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
 * In the directory that systemd creates for the service, because a unit may make `/tmp` read-only, or else in `/tmp`, which is
 * sticky. Other users cannot replace either link.
 */
function linkOf(id: string): string {
  const [own = ''] = (process.env.RUNTIME_DIRECTORY ?? '').split(':');
  return own === '' ? `/tmp/remote-app-${id}` : path.join(own, id);
}

/** The target of a link that belongs to this user; undefined for anything else. */
const targetOf = (link: string): string | undefined =>
  orElse(() => (lstatSync(link).uid === process.geteuid?.() ? readlinkSync(link) : undefined), undefined);

/**
 * A path of the directory for temporary files that is short enough for sockets in it: its own path, or a link to it. The files
 * themselves stay in the job's directory, where they count towards its limit and are removed with it.
 * @param id of the job, or of the worker
 * @returns the long path if the link can't be created
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

/** Removes that link, if it exists and belongs to this user. */
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
 * The lowest priority. Fifty jobs that print at full speed are a hundred busy processes, which at a higher priority would delay
 * the server's answers (bench row `live-logs`). Runner and command have the same priority, because a busy command would otherwise
 * delay its own log.
 */
const niceness = constants.priority.PRIORITY_LOW;

/** Milliseconds at normal priority, so that a start, or a short job, is not slowed down by other work on the machine. */
const headStart = 1000;

/** Maximum milliseconds until the next attempt, if another process was first. */
const retryPause = 400;
/** Number of attempts. The system allows ten such writes per second, so this is enough for a hundred processes. */
const retries = 100;

/**
 * Lowers the priority of a newly started child, and of its children, below that of the server. The child must be started
 * detached: with Linux's autogroups (sched(7)), niceness counts only within a session, so after a head start the priority of the
 * child's whole session is lowered as well.
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
  // If the child has ended, another process may have its id.
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    writeFileSync(`/proc/${child.pid}/autogroup`, String(niceness));
  } catch (cause) {
    // Without privileges, the system allows one such write per 100 ms for all processes together. Any other error means that the
    // system has no autogroups, in which case niceness is enough.
    if (errorCode(cause) !== 'EAGAIN' || attempts === 0) return;
    setTimeout(() => lowerSession(child, attempts - 1), Math.random() * retryPause).unref();
  }
}

/** The parts of a request that define the program to start. */
type Startable = Pick<
  RunRequest,
  'command' | 'wrapper' | 'isSandboxed' | 'filter' | 'inherited' | 'environment' | 'directory'
>;

/**
 * Checks that a program for a sandbox exists, because bwrap's own message would be less clear.
 * @throws ENOENT if no directory of this machine's `PATH` has the program
 */
function checkProgram({ isSandboxed, command: [program = ''] }: Startable): void {
  if (!isSandboxed || findProgram(program, process.env.PATH ?? '') !== undefined) return;
  throw Object.assign(new Error('No such program'), { code: 'ENOENT' });
}

/**
 * Checks the length of a command and its environment by starting a shell that does nothing with them. There is no other way to
 * find out beforehand whether they are too long for the system.
 * @throws E2BIG if they are too long
 */
function checkLength(command: readonly string[], env: NodeJS.ProcessEnv): void {
  const { error } = spawnSync('/bin/sh', ['-c', ':', ...command], { env, stdio: 'ignore' });
  if (error) throw error;
}

/** Writes the filter to the pipe from which bwrap reads it, and closes the pipe. */
function giveFilter(filter: string, { stdio }: ChildProcess): void {
  // The pipe is missing if the program could not be started; the whole list is missing if there were not enough descriptors.
  const pipe: unknown = [...(stdio ?? [])].at(-1);
  if (!(pipe instanceof Writable)) return;
  // bwrap may have ended already.
  pipe.on('error', () => {});
  pipe.end(filter, 'base64', () => pipe.destroy());
}

/**
 * Starts a command in its own process group, so that the whole group can be signalled at once.
 * @param marker the id that marks the command's processes
 * @throws ENOENT if a program for a sandbox does not exist, E2BIG if its command line is too long; all other errors are emitted
 *   by the child
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

/** How messages refer to this machine: Slurm gives the batch script the name of its node. */
const thisMachine = (): string => {
  const node = process.env.SLURMD_NODENAME;
  return node === undefined ? 'the server' : `node ${quoteName(node)}`;
};

/** Why a program cannot be started, and what can be done about that. */
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
