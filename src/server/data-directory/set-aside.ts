import { mkdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { quoteName } from '../../contract/quote.js';
import { errorCode, faultWithoutPath } from '../../files/error-code.js';
import type { Report } from '../report.js';

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
