import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import path from 'node:path';
import { quoteName } from '../contract/quote.js';
import { errorCode, faultWithoutPath } from '../files/error-code.js';
import { findProgram } from '../files/find-program.js';
import { jobMarker, type RunRequest } from './protocol.js';

/** What is started. */
export type Startable = Pick<
  RunRequest,
  'command' | 'wrapper' | 'isSandboxed' | 'inherited' | 'environment' | 'directory'
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
 * Starts a command in a process group of its own, which can be signalled, and checked for being gone, as a whole.
 * @param marker the id that marks its processes
 * @throws ENOENT if there is no such program for a sandbox; other errors are those of the child
 */
export function startProgram(request: Startable, marker: string, stdio: StdioOptions): ChildProcess {
  checkProgram(request);
  const [program = '', ...args] = [...request.wrapper, ...request.command];
  // Not execa: it would be loaded at the start of every job, and a command whose output goes to a descriptor and whose
  // whole group is signalled uses nothing that it adds.
  const inherited = Object.fromEntries(request.inherited.map((name) => [name, process.env[name]]));
  return spawn(program, args, {
    cwd: request.directory,
    env: { ...inherited, ...request.environment, [jobMarker]: marker },
    stdio,
    detached: true,
  });
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

/** Names the program without its directory: clients must not see paths of the server. */
export function startFault({ command: [program = ''] }: Pick<Startable, 'command'>, cause: unknown): string {
  const name = quoteName(path.basename(program));
  const isMissing = errorCode(cause) === 'ENOENT';
  const why = isMissing ? `there is no such program on ${thisMachine()}` : faultWithoutPath(cause);
  return `Cannot start ${name}: ${why}`;
}
