import { existsSync, linkSync, lstatSync, renameSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { freeName, makeDirectory } from '../../files/index.js';
import { type CaseRecord, readRecord, withNames, writeRecord } from '../case/index.js';
import { type CasePlace, filesOfPlace } from './layout.js';

/** The beginning of a path that something else has in a directory: a file where it needs a directory, or anything at its end. */
function obstacleOf(directory: string, name: string): string | null {
  const parts = name.split('/');
  for (let count = 1; count <= parts.length; count += 1) {
    const part = parts.slice(0, count).join('/');
    const stats = lstatSync(path.join(directory, part), { throwIfNoEntry: false });
    if (!stats) return null;
    if (count === parts.length || !stats.isDirectory()) return part;
  }
  return null;
}

/** Gives a file another name in its directory, and its name in the record. */
function moveAway(
  complete: string,
  name: string,
  record: CaseRecord,
  isTaken: (name: string) => boolean,
): CaseRecord {
  const directory = path.posix.dirname(name);
  const at = (base: string) => path.posix.join(directory, base);
  const free = at(freeName(path.posix.basename(name), new Map(), (base) => isTaken(at(base))));
  renameSync(path.join(complete, name), path.join(complete, free));
  const renamed = (output: string) =>
    output === name || output.startsWith(`${name}/`) ? free + output.slice(name.length) : output;
  return withNames(record, renamed);
}

/**
 * Adds to a complete result the files in its place that are no outputs of an earlier one: what a person has put there, or changed.
 * They keep their names, and what the result has under these gets others.
 * @param edited those of them that an earlier result had
 * @param isUnchanged whether a file is an output of the earlier result as that wrote it
 * @param isForced whether the result's files replace them instead
 */
export async function keepFiles(
  place: CasePlace,
  complete: string,
  edited: readonly string[],
  isForced: boolean,
  isUnchanged: (name: string) => Promise<boolean>,
): Promise<void> {
  const { directory, record: recordName } = place;
  const ours = [recordName, readRecord(directory, recordName)?.log];
  const staying: string[] = [];
  for (const name of filesOfPlace(place))
    if (!ours.includes(name) && !(await isUnchanged(name))) staying.push(name);
  let record = readRecord(complete, recordName);
  const isStaying = new Set(staying);
  const isTaken = (name: string) => isStaying.has(name) || existsSync(path.join(complete, name));
  for (const name of staying) {
    // A directory may have the name of the record, which is not moved away.
    const wanted = name.startsWith(`${recordName}/`) ? name.replace('.json/', '_1.json/') : name;
    const obstacle = obstacleOf(complete, wanted);
    if (obstacle !== null && isForced) continue;
    if (obstacle !== null && record) record = moveAway(complete, obstacle, record, isTaken);
    const target = path.join(complete, wanted);
    makeDirectory(path.dirname(target));
    try {
      linkSync(path.join(directory, name), target);
    } catch {
      // A file system without hard links.
      await copyFile(path.join(directory, name), target);
    }
  }
  const kept = edited.filter((name) => isStaying.has(name) && !isForced);
  if (record) writeRecord(complete, { ...record, kept }, recordName);
}
