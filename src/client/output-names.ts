import { readdirSync } from 'node:fs';
import path from 'node:path';
import { resultName } from '../contract/index.js';
import { orElse } from '../files/index.js';

/** File name of the record of how a result was made, beside the files of the result. */
export const recordName = 'remote-app-record.json';

/** File name of the job's log, beside the files of its result. */
export const logName = 'remote-app-log.txt';

/** File name of the table of many cases, beside the directories of their results. */
export const tableName = 'cases.csv';

/** Files that only results directories contain. */
const ofResults = [resultName, recordName, logName];

/** The directory with a number, counted from 1, for results that go to `directory`. */
export const numberedDirectory = (directory: string, number: number): string =>
  number === 1 ? directory : `${directory}-${number}`;

/**
 * Whether a directory is the one for results, or a numbered directory beside it that contains a result. The name alone is not
 * enough: `case-2` could contain someone's volumes.
 * @param output absolute path of the first of these directories
 */
export function isResultDirectory(directory: string, output: string): boolean {
  const target = path.resolve(directory);
  if (target === output) return true;
  if (!target.startsWith(`${output}-`) || !/^[1-9]\d*$/.test(target.slice(output.length + 1))) return false;
  return orElse(() => readdirSync(target).some((name) => ofResults.includes(name)), false);
}

/** Ending of a record's name if it is stored beside other results, as BIDS derivatives. */
export const bidsRecordEnding = '_record.json';

/** The common prefix of one result's files in that case: `sub-01_desc-brain` for `sub-01_desc-brain_mask.nii.gz`. */
const bidsResult = /^sub-.*?_desc-[\p{L}\p{N}]+(?=_)/u;

/** Whether a file or a directory among derivatives belongs to a result. */
export const isBidsResult = (name: string): boolean => bidsResult.test(name);

/** The name of the record of the result that a file among derivatives belongs to; null for other files. */
export function bidsRecordOf(name: string): string | null {
  const [start] = bidsResult.exec(name) ?? [];
  return start === undefined ? null : start + bidsRecordEnding;
}
