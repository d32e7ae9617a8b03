import { accessSync, constants, lstatSync, mkdirSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { quoteName } from '../../contract/index.js';
import { errorCode, faultWithoutPath } from '../../files/index.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';

/** The directories that servers make in a data directory. */
const names = ['jobs', 'incoming', 'trash', 'slurm'] as const;
type OwnName = (typeof names)[number];

/** Whether the directory may be a link: an admin may keep the jobs elsewhere on the same file system. */
const mayBeLink = (name: OwnName): boolean => name === 'jobs';

/**
 * Makes one of the server's directories: for uploads, jobs, or what is being removed. A file or link of the same name is
 * set aside. All of them must be on one file system, because jobs are renamed from one to another.
 * @returns its path
 * @throws SetupError if it is on another file system
 */
export function ownDirectory(dataDirectory: string, name: OwnName, report: Report): string {
  const directory = path.join(dataDirectory, name);
  const look = mayBeLink(name) ? statSync : lstatSync;
  const stats = look(directory, { throwIfNoEntry: false });
  if (stats && !stats.isDirectory()) {
    setAside(dataDirectory, directory, `the server needs a directory called ${name}`, report);
  }
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  checkSameFileSystem(directory, dataDirectory);
  return directory;
}

/** @throws SetupError */
function checkSameFileSystem(directory: string, dataDirectory: string): void {
  if (statSync(directory).dev === statSync(dataDirectory).dev) return;
  throw new SetupError(
    `${directory} is on another file system than ${dataDirectory}; mount the data directory as one`,
  );
}

/**
 * Looks whether a server could use the directories that an earlier one has made. Changes nothing.
 * @throws SetupError if one is on another file system, or the system's error if it cannot be used
 */
export function lookAtOwnDirectories(dataDirectory: string): void {
  for (const name of names) {
    const directory = path.join(dataDirectory, name);
    const own = lstatSync(directory, { throwIfNoEntry: false });
    // What is no directory is set aside by a start.
    const isUsed = own?.isDirectory() || (own?.isSymbolicLink() && mayBeLink(name));
    if (!isUsed) continue;
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    checkSameFileSystem(directory, dataDirectory);
  }
}

/**
 * Moves an entry that is not a job, or that cannot be read, to `DATA/set-aside`, and reports it. Its content is not changed;
 * an admin decides what to do with it. An entry that cannot be moved stays where it is.
 */
export function setAside(dataDirectory: string, entry: string, why: string, report: Report): void {
  const directory = path.join(dataDirectory, 'set-aside');
  // The time keeps entries of one name apart and shows a person when it happened.
  const stamp = new Date().toISOString().replaceAll(':', '-');
  const target = path.join(directory, `${path.basename(entry)}.${stamp}`);
  const name = quoteName(path.basename(entry));
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    renameSync(entry, target);
    report(`Set aside ${name} as ${target}`, why);
  } catch (cause) {
    report(`Left ${name} where it is, in ${path.dirname(entry)}`, `${why}; ${faultWithoutPath(cause)}`);
  }
}

/** Reads a file of the data directory, if it is there. One that cannot be read is set aside, so that a start does not fail because of it. */
export function readOrSetAside(dataDirectory: string, file: string, report: Report, read: () => void): void {
  try {
    read();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    if (errorCode(cause) !== 'ENOENT') setAside(dataDirectory, file, why, report);
  }
}
