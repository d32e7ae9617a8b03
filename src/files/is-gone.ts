import { lstatSync } from 'node:fs';

/** Whether something is certain not to be there; false where that cannot be told. */
export function isGone(file: string): boolean {
  try {
    return lstatSync(file, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}
