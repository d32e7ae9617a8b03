import { readdirSync } from 'node:fs';
import path from 'node:path';
import { resultName } from '../contract/index.js';
import { orElse } from '../files/index.js';

/** The record beside the files of a result, of how it was made. */
export const recordName = 'remote-app-record.json';

/** The log of the job, beside the files of its result. */
export const logName = 'remote-app-log.txt';

/** The table of many cases, beside the directories of their results. */
export const tableName = 'cases.csv';

/** Files that only directories of results have. */
const ofResults = [resultName, recordName, logName];

/** The directory of that number, counted from 1, for results that go to `directory`. */
export const numberedDirectory = (directory: string, number: number): string =>
  number === 1 ? directory : `${directory}-${number}`;

/**
 * Whether a directory is the one for results, or a numbered directory beside it that contains a result. The name alone
 * does not suffice: `case-2` could hold somebody's volumes.
 * @param output absolute path of the first of these directories
 */
export function isResultDirectory(directory: string, output: string): boolean {
  const target = path.resolve(directory);
  if (target === output) return true;
  if (!target.startsWith(`${output}-`) || !/^[1-9]\d*$/.test(target.slice(output.length + 1))) return false;
  return orElse(() => readdirSync(target).some((name) => ofResults.includes(name)), false);
}

/** How the names of records end that lie among other results, as derivatives of BIDS. */
export const bidsRecordEnding = '_record.json';

/** The beginning of a name that all files of one result have there: `sub-01_desc-brain` of `sub-01_desc-brain_mask.nii.gz`. */
const bidsResult = /^sub-.*?_desc-[\p{L}\p{N}]+(?=_)/u;

/** Whether a file or a directory among derivatives belongs to a result. */
export const isBidsResult = (name: string): boolean => bidsResult.test(name);

/** The name of the record of such a result; null for another file. */
export function bidsRecordOf(name: string): string | null {
  const [start] = bidsResult.exec(name) ?? [];
  return start === undefined ? null : start + bidsRecordEnding;
}
