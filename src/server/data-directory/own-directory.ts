import { lstatSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';
import { setAside } from './set-aside.js';

/** Whether the directory may be a link: an admin may keep the jobs elsewhere on the same file system. */
const mayBeLink = (name: string): boolean => name === 'jobs';

/**
 * Makes one of the server's directories: for uploads, jobs, or what is being removed. A file or link of the same name is
 * set aside. All of them must be on one file system, because jobs are renamed from one to another.
 * @returns its path
 * @throws SetupError if it is on another file system
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
