import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { logName, recordName } from '../../dist/contract/index.js';
import { unzip } from '../support/unzip.mjs';
import { runProgram } from './clients.mjs';
import { programOf } from './environment.mjs';

const contents = fileURLToPath(new URL('contents.py', import.meta.url));

/** The files of a result, as relative names, without the record that our client writes beside them. */
export async function filesBelow(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const names = files.map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
  return names.filter((name) => name !== recordName && name !== logName).sort();
}

/** What a result's files hold, likewise: a Map from names to sums, by `contents.py`. */
export async function contentsOf(workshop, directory) {
  const words = [programOf('python'), contents, directory];
  const { code, printed, stdout } = await runProgram(workshop, words, directory);
  if (code !== 0) throw new Error(`contents.py: ${printed}`);
  return new Map(
    Object.entries(JSON.parse(stdout)).filter(([name]) => name !== recordName && name !== logName),
  );
}

/** What differs between two results, a sentence a file. */
export function differencesOf(first, second) {
  const names = new Set([...first.keys(), ...second.keys()]);
  return [...names].flatMap((name) => {
    if (!first.has(name)) return [`${name} is not expected`];
    if (!second.has(name)) return [`${name} is missing`];
    return first.get(name) === second.get(name) ? [] : [`${name} differs`];
  });
}

/** What differs between a result's archive and what the client made of it, byte for byte, a sentence a file. */
export async function differencesFromArchive(directory) {
  const archive = unzip(await readFile(path.join(directory, 'result.zip')));
  const names = (await filesBelow(directory)).filter((name) => name !== 'result.zip');
  const extra = names.filter((name) => !archive.has(name)).map((name) => `${name} is not in result.zip`);
  const wrong = [];
  for (const [name, bytes] of archive) {
    const found = await readFile(path.join(directory, name)).catch(() => null);
    if (!found?.equals(bytes)) wrong.push(`${name} is not what result.zip has`);
  }
  return [...extra, ...wrong];
}

/** Changes one bit of a file: in the middle, but at the end of a DICOM file, where its voxels are. */
export async function flipByte(file) {
  const bytes = await readFile(file);
  const at = file.endsWith('.dcm') ? bytes.length - 1 : bytes.length >> 1;
  bytes[at] ^= 1;
  await writeFile(file, bytes);
}

/** Bytes of a file, 0 for one that is not there. */
export const sizeOf = (file) =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  );
