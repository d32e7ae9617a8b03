import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode, orElse } from './errors.js';

/** False also if the directory may not be searched. */
const isFile = (file: string): boolean => orElse(() => statSync(file).isFile(), false);

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return isFile(file);
  } catch {
    return false;
  }
}

/**
 * Finds the file of a program that is to be started without a shell.
 * @param name if it contains a slash, it is a path, which must be absolute; otherwise it is searched for
 * @param searchPath directories as in `PATH`; relative ones are ignored
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

/** Whether a directory of `PATH` contains a file of this name, even one that is not executable. */
export const isOnPath = (name: string, searchPath: string): boolean =>
  searchPath
    .split(path.delimiter)
    .filter((directory) => directory !== '')
    .some((directory) => isFile(path.resolve('/', directory, name)));

/**
 * The error of a program that could not be started: ENOENT if no directory of `PATH` has it. The system reports EACCES instead if
 * one of the directories may not be searched.
 * @param searchPath the `PATH` in which the program was searched for
 */
export function startError<T>(cause: T, name: string, searchPath: string): T | Error {
  if (errorCode(cause) !== 'EACCES' || name.includes('/') || isOnPath(name, searchPath)) return cause;
  return Object.assign(new Error(`${name} is not on PATH`, { cause }), { code: 'ENOENT' });
}
