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
 * The file that a program's name stands for, as a shell finds it.
 * @param searched as in PATH
 * @returns null if there is none that this user may run
 */
export function findProgram(name: string, searched: string | undefined): string | null {
  if (name.includes('/')) return isProgram(name) ? name : null;
  const directories = (searched ?? '').split(path.delimiter).filter((each) => each !== '');
  return directories.map((each) => path.join(each, name)).find(isProgram) ?? null;
}
