import { mkdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { quoteName } from '../../contract/quote.js';
import { faultWithoutPath } from '../../files/error-code.js';
import type { Report } from '../report.js';

/**
 * Moves what lies among the jobs and is no job, or cannot be read, to `DATA/set-aside`, and says so. Nothing of it is
 * changed; an admin decides what becomes of it. What cannot be moved stays where it is.
 */
export function setAside(dataDirectory: string, entry: string, why: string, report: Report): void {
  const directory = path.join(dataDirectory, 'set-aside');
  // Two of one name are kept apart, and a person sees when it was.
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
