import { type ChildProcess, type StdioOptions, spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { Writable } from 'node:stream';
import { counted } from '../contract/counted.js';
import { quoteName } from '../contract/quote.js';
import { errorCode, faultWithoutPath } from '../files/error-code.js';
import { findProgram } from '../files/find-program.js';
import { hasManyWords, inFewWords } from './few-words.js';
import { jobMarker, type RunRequest } from './protocol.js';
import { shortTemporary } from './temporary.js';

/** What is started. */
export type Startable = Pick<
  RunRequest,
  'command' | 'wrapper' | 'isSandboxed' | 'filter' | 'inherited' | 'environment' | 'directory'
>;

/**
 * Looks for a program that starts in a sandbox: bwrap would only say that there is none in there.
 * @throws ENOENT if it is nowhere on this machine
 */
function checkProgram({ isSandboxed, command: [program = ''] }: Startable): void {
  if (!isSandboxed || findProgram(program, process.env.PATH ?? '') !== undefined) return;
  throw Object.assign(new Error('No such program'), { code: 'ENOENT' });
}

/**
 * Starts a program that does nothing with the words and variables of a command: a shell that gets them in parts could only
 * say in the log that they are too long for the system.
 * @throws E2BIG if they are too long
 */
function checkLength(command: readonly string[], env: NodeJS.ProcessEnv): void {
  const { error } = spawnSync('/bin/sh', ['-c', ':', ...command], { env, stdio: 'ignore' });
  if (error) throw error;
}

/** Writes the filter to the pipe from which bwrap reads it, and closes the pipe. */
function giveFilter(filter: string, { stdio }: ChildProcess): void {
  // There is none if the program could not be started, and no list if the descriptors did not suffice.
  const pipe: unknown = [...(stdio ?? [])].at(-1);
  if (!(pipe instanceof Writable)) return;
  // bwrap may have ended already.
  pipe.on('error', () => {});
  pipe.end(filter, 'base64', () => pipe.destroy());
}

/**
 * Starts a command in a process group of its own, which can be signalled, and checked for being gone, as a whole.
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
  // bwrap sets PWD.
  if (isInParts) checkLength(command, { ...env, PWD: directory });
  const [program = '', ...args] = [...wrapper, ...(isInParts ? inFewWords(command) : command)];
  // Not execa: it would be loaded at the start of every job, and a command whose output goes to a descriptor and whose
  // whole group is signalled uses nothing that it adds.
  const all = filter === undefined ? stdio : [...stdio, 'pipe' as const];
  const child = spawn(program, args, { cwd: directory, env, stdio: all, detached: true });
  if (filter !== undefined) giveFilter(filter, child);
  return child;
}

/** What is wrong when bwrap did not come to start the command. It has printed why. */
export function sandboxFault({ command: [program = ''] }: Pick<Startable, 'command'>): string {
  const name = quoteName(path.basename(program));
  return `Cannot start ${name} in its sandbox; the line of bwrap in the log says why. What an app needs beside its own directory is named with serve --bind`;
}

/** The machine of this runner, in words: Slurm names its node to the batch script. */
const thisMachine = (): string => {
  const node = process.env.SLURMD_NODENAME;
  return node === undefined ? 'the server' : `node ${quoteName(node)}`;
};

/** Why a program cannot be started, and what can be done about it, in words. */
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

/** Names the program without its directory: clients must not see paths of the server. */
export function startFault({ command }: Pick<Startable, 'command'>, cause: unknown): string {
  const name = quoteName(path.basename(command[0] ?? ''));
  return `Cannot start ${name}: ${whyNotStarted(command, cause)}`;
}
