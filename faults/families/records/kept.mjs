import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { unzip } from '../../../support/unzip.mjs';

/** Every file and link below a directory, without following a link. */
export function* filesBelow(directory) {
  let names;
  try {
    names = readdirSync(directory);
  } catch {
    return;
  }
  for (const name of names) {
    const file = path.join(directory, name);
    const info = lstatSync(file);
    if (info.isDirectory()) yield* filesBelow(file);
    else yield { file, info };
  }
}

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');

function contentOf({ file, info }) {
  if (info.isSymbolicLink()) return hash(`link to ${readlinkSync(file)}`);
  return info.isFile() ? hash(readFileSync(file)) : null;
}

/** What must not get lost: the content of each file below `directory` that `isKept`, with its path. */
export const inventory = (directory, isKept = () => true) =>
  [...filesBelow(directory)]
    .filter(({ file }) => isKept(path.relative(directory, file)))
    .map((each) => ({ file: each.file, content: contentOf(each) }))
    .filter(({ content }) => content !== null);

/** Those of an inventory whose content is nowhere below `directory` any more, be it in a result there. */
export function lost(directory, kept) {
  const there = new Set();
  for (const each of filesBelow(directory)) {
    there.add(contentOf(each));
    if (path.basename(each.file) !== 'result.zip' || !each.info.isFile()) continue;
    try {
      for (const content of unzip(readFileSync(each.file)).values()) there.add(hash(content));
    } catch {
      // A torn archive keeps nothing.
    }
  }
  return kept.filter(({ content }) => !there.has(content)).map(({ file }) => path.relative(directory, file));
}
