import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { unzip } from '../../../support/unzip.mjs';

/** Every file and link below a directory, without following a link. What is removed meanwhile, as by a spare runner that ends, is passed over. */
export function* filesBelow(directory) {
  let names;
  try {
    names = readdirSync(directory);
  } catch {
    return;
  }
  for (const name of names) {
    const file = path.join(directory, name);
    const info = lstatSync(file, { throwIfNoEntry: false });
    if (info === undefined) continue;
    if (info.isDirectory()) yield* filesBelow(file);
    else yield { file, info };
  }
}

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Null for what has none, or is gone by now. */
function contentOf({ file, info }) {
  try {
    if (info.isSymbolicLink()) return hash(`link to ${readlinkSync(file)}`);
    return info.isFile() ? hash(readFileSync(file)) : null;
  } catch (cause) {
    if (cause.code !== 'ENOENT') throw cause;
    return null;
  }
}

/** The content, with its path, of each file below `directory` that `isKept`: none may be lost. */
export const inventory = (directory, isKept = () => true) =>
  [...filesBelow(directory)]
    .filter(({ file }) => isKept(path.relative(directory, file)))
    .map((each) => ({ file: each.file, content: contentOf(each) }))
    .filter(({ content }) => content !== null);

/** The files of an inventory whose content is no longer anywhere below `directory`, not even in a result. */
export function lost(directory, kept) {
  const there = new Set();
  for (const each of filesBelow(directory)) {
    there.add(contentOf(each));
    if (path.basename(each.file) !== 'result.zip' || !each.info.isFile()) continue;
    try {
      for (const content of unzip(readFileSync(each.file)).values()) there.add(hash(content));
    } catch {
      // A damaged archive counts as empty.
    }
  }
  return kept.filter(({ content }) => !there.has(content)).map(({ file }) => path.relative(directory, file));
}
