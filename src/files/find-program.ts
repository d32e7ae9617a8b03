import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode, orElse } from './errors.js';

/** False as well where the directory may not be searched. */
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

/** Whether a file of this name lies in a directory of `PATH`, even one that may not be executed. */
export const isOnPath = (name: string, searchPath: string): boolean =>
  searchPath
    .split(path.delimiter)
    .filter((directory) => directory !== '')
    .some((directory) => isFile(path.resolve('/', directory, name)));

/**
 * The error of a program that could not be started, as ENOENT where it lies nowhere. The system says EACCES where one
 * directory of `PATH` may not be searched and no other has the program.
 * @param searchPath the `PATH` that it was looked for on
 */
export function startError<T>(cause: T, name: string, searchPath: string): T | Error {
  if (errorCode(cause) !== 'EACCES' || name.includes('/') || isOnPath(name, searchPath)) return cause;
  return Object.assign(new Error(`${name} is not on PATH`, { cause }), { code: 'ENOENT' });
}
