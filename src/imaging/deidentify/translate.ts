import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { voxelFilesOf } from '@remote-app/volumes/headers';
import { type OriginalNames, withOriginals } from '../../client/outgoing.js';
import { someOf } from '../../contract/index.js';
import { foldedName, isSafeName, TimeSlice } from '../../files/index.js';
import { groupBy } from '../inputs/index.js';

/** Maximum size of a text file in which names are replaced, in bytes. */
const maxText = 16 << 20;

/** Whether a file is text that apps write for people or as a table. */
const isText = (name: string): boolean => /\.(json|csv|tsv|txt|log)$/i.test(name);

/** Names as they are written in a text file: escaped in JSON; in other files only those that a table need not quote. */
function namesIn(file: string, originals: OriginalNames): OriginalNames {
  const isJson = /\.json$/i.test(file);
  const names = Object.entries(originals)
    .filter(([, name]) => isJson || /^[^",;\t\r\n]*$/.test(name))
    .map(([token, name]) => [token, isJson ? JSON.stringify(name).slice(1, -1) : name] as const);
  return latinNames(names);
}

/** UTF-8 names as they appear in a text read as Latin-1. */
const latinNames = (names: readonly (readonly [token: string, name: string])[]): OriginalNames =>
  Object.fromEntries(names.map(([token, name]) => [token, Buffer.from(name).toString('latin1')]));

function translateText(file: string, originals: OriginalNames): void {
  if (statSync(file).size > maxText) return;
  const text = readFileSync(file, 'latin1');
  const translated = withOriginals(text, namesIn(file, originals));
  if (translated !== text) writeFileSync(file, translated, 'latin1');
}

/** Headers that name their voxel files, and the line that does so. */
const detached = /\.(mhd|nhdr)$/i;
const dataFileLine = /^(?:ElementDataFile\s*=|data ?file:)(?:\s*LIST\b[\s\S]*|[^\n]*)/im;

/** Whether the files that a header names exist. */
function hasDataFiles(file: string, header: Buffer): boolean {
  const wanted = voxelFilesOf(file, (max) => header.subarray(0, max)) ?? [];
  return wanted.every((names) => names.some((name) => existsSync(path.join(path.dirname(file), name))));
}

/** Replaces the names of voxel files in a header, if files of the new names exist. */
function translateHeader(file: string, originals: OriginalNames): void {
  if (statSync(file).size > maxText) return;
  const header = readFileSync(file);
  if (hasDataFiles(file, header)) return;
  const names = latinNames(Object.entries(originals));
  const text = header.toString('latin1').replace(dataFileLine, (lines) => withOriginals(lines, names));
  const translated = Buffer.from(text, 'latin1');
  if (hasDataFiles(file, translated)) writeFileSync(file, translated);
}

/**
 * Restores the user's names of the files and directories of a result, also inside text files and in headers that name other
 * files. Works in a private directory, before the result is moved to its place. A file remains under its neutral name, and a note
 * says so, if its own name is invalid or shared by two files.
 * @throws the system's error
 */
export async function translateResult(
  directory: string,
  originals: OriginalNames,
  note: (text: string) => void,
): Promise<void> {
  if (Object.keys(originals).length === 0) return;
  const kept: string[] = [];
  await translateBelow(directory, originals, new TimeSlice(), kept);
  if (kept.length > 0)
    note(
      `Kept under neutral names, since the names of your files are taken or cannot be used here: ${someOf(kept.map((file) => path.relative(directory, file)))}`,
    );
}

async function translateBelow(
  directory: string,
  originals: OriginalNames,
  slice: TimeSlice,
  kept: string[],
): Promise<void> {
  const entries = readdirSync(directory, { withFileTypes: true });
  for (const entry of entries) {
    await slice.pause();
    const place = path.join(directory, entry.name);
    if (entry.isDirectory()) await translateBelow(place, originals, slice, kept);
    else if (entry.isFile() && isText(entry.name)) translateText(place, originals);
  }
  const names = entries.map(({ name }) => name);
  const renamed = newNames(names, originals);
  const at = (name: string) => path.join(directory, name);
  // A new name may be another file's old name, so all files are moved aside first.
  const moves = [...renamed].map(([from, to], index) => ({
    from,
    aside: `.renamed-${process.pid}-${index}`,
    to,
  }));
  for (const { from, aside } of moves) renameSync(at(from), at(aside));
  for (const { aside, to } of moves) renameSync(at(aside), at(to));
  for (const name of names) {
    const now = renamed.get(name) ?? name;
    if (now === name && withOriginals(name, originals) !== name) kept.push(at(name));
    if (detached.test(now) && statSync(at(now)).isFile()) translateHeader(at(now), originals);
  }
}

/** The new names of a directory's entries by their old names, without names that are invalid or that two entries would share. */
function newNames(names: readonly string[], originals: OriginalNames): Map<string, string> {
  const wanted = new Map(
    names.flatMap((from) => {
      const to = withOriginals(from, originals);
      return to !== from && isSafeName(to) ? [[from, to] as const] : [];
    }),
  );
  for (;;) {
    const doubled = groupBy(names, (name) => foldedName(wanted.get(name) ?? name))
      .filter((group) => group.length > 1)
      .flat()
      .filter((name) => wanted.has(name));
    if (doubled.length === 0) return wanted;
    // An entry that is not renamed may block another one.
    for (const name of doubled) wanted.delete(name);
  }
}
