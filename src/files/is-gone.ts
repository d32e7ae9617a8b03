import { lstatSync } from 'node:fs';

/** Whether a path certainly does not exist; false if that cannot be determined. */
export function isGone(file: string): boolean {
  try {
    return lstatSync(file, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}
