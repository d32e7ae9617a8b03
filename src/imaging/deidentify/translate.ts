import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type OriginalNames, withOriginals } from '../../client/outgoing.js';
import { isSafeName, TimeSlice } from '../../files/index.js';

/** Largest file of text in which names are replaced, in bytes. */
const maxText = 16 << 20;

/** Files of text that apps write for people and for tables. */
const isText = (name: string): boolean => /\.(json|csv|tsv|txt|log)$/i.test(name);

/** Names as a file of text has them, byte by byte: in JSON they are escaped, and a table has only those that need no quotation marks. */
function namesIn(file: string, originals: OriginalNames): OriginalNames {
  const isJson = /\.json$/i.test(file);
  const names = Object.entries(originals)
    .filter(([, name]) => isJson || /^[^",;\t\r\n]*$/.test(name))
    .map(([token, name]) => [token, isJson ? JSON.stringify(name).slice(1, -1) : name] as const);
  return Object.fromEntries(names.map(([token, name]) => [token, Buffer.from(name).toString('latin1')]));
}

function translateText(file: string, originals: OriginalNames): void {
  if (statSync(file).size > maxText) return;
  const text = readFileSync(file, 'latin1');
  const translated = withOriginals(text, namesIn(file, originals));
  if (translated !== text) writeFileSync(file, translated, 'latin1');
}

/**
 * Gives the files and directories of a result the names that the person knows, and puts these into files of text, in a private
 * directory from which they get their place later. Where such a name cannot be, or is taken, the neutral one stays.
 * @throws the system's error
 */
export async function translateResult(directory: string, originals: OriginalNames): Promise<void> {
  if (Object.keys(originals).length > 0) await translateBelow(directory, originals, new TimeSlice());
}

async function translateBelow(directory: string, originals: OriginalNames, slice: TimeSlice): Promise<void> {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    await slice.pause();
    const place = path.join(directory, entry.name);
    if (entry.isDirectory()) await translateBelow(place, originals, slice);
    else if (entry.isFile() && isText(entry.name)) translateText(place, originals);
    const name = withOriginals(entry.name, originals);
    const wanted = path.join(directory, name);
    if (name !== entry.name && isSafeName(name) && !existsSync(wanted)) renameSync(place, wanted);
  }
}
