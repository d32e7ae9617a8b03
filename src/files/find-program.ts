import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';

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
