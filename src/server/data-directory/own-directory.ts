import { lstatSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';
import { setAside } from './set-aside.js';

/** Whether a link there may lead to the directory: an admin may keep the jobs elsewhere, on the same file system. */
const mayBeLink = (name: string): boolean => name === 'jobs';

/**
 * Makes one of the directories that hold uploads, jobs and what is being removed. What else has its name, a file or a
 * link, is set aside. They lie on one file system: what goes from one to the other is renamed.
 * @returns its path
 * @throws SetupError where it is another file system
 */
export function ownDirectory(dataDirectory: string, name: string, report: Report): string {
  const directory = path.join(dataDirectory, name);
  const look = mayBeLink(name) ? statSync : lstatSync;
  const stats = look(directory, { throwIfNoEntry: false });
  if (stats && !stats.isDirectory()) {
    setAside(dataDirectory, directory, `the server needs a directory called ${name}`, report);
  }
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (statSync(directory).dev === statSync(dataDirectory).dev) return directory;
  throw new SetupError(
    `${directory} is on another file system than ${dataDirectory}; mount the data directory as one`,
  );
}
