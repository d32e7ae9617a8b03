import type { ChildProcess } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';
import type { Readable } from 'node:stream';

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/**
 * The file of a program, as found when it is started without a shell.
 * @param name with a slash it is a path, which counts only if it is absolute; otherwise it is looked for
 * @param searchPath directories as in `PATH`; relative ones do not count
 * @returns undefined if there is no such program
 */
export function findProgram(name: string, searchPath: string): string | undefined {
  if (name.includes('/')) return path.isAbsolute(name) && isProgram(name) ? name : undefined;
  return searchPath
    .split(path.delimiter)
    .filter((directory) => path.isAbsolute(directory))
    .map((directory) => path.join(directory, name))
    .find(isProgram);
}

/** Milliseconds that a pipe may stay open after the program has ended: one of its children may hold it. */
const pipeGrace = 500;

/** How a program ended, and what it printed. */
export interface ProgramEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Whether its pipes are closed, so that nothing it started holds one. */
  readonly isClosed: boolean;
}

/**
 * Resolves when a program that was just started has ended, also if one of its children keeps a pipe open. Not execa's
 * promise, which waits for the pipes.
 * @param collect begins to read a stream, and returns a function that gives the text at the end. A process that could not
 *   be started for lack of descriptors has no streams
 * @throws the system's error if it could not be started
 */
export function programEnd(
  child: ChildProcess,
  collect: (stream: Readable | null | undefined) => () => string,
): Promise<ProgramEnd> {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    const end = (isClosed: boolean) => {
      const { exitCode, signalCode: signal } = child;
      resolve({ exitCode, signal, stdout: stdout(), stderr: stderr(), isClosed });
    };
    let timer: NodeJS.Timeout | undefined;
    child.once('exit', () => {
      timer = setTimeout(end, pipeGrace, false).unref();
    });
    child.once('close', () => {
      clearTimeout(timer);
      end(true);
    });
  });
}
