import { copyFileSync, existsSync, linkSync, lstatSync, rmSync } from 'node:fs';
import path from 'node:path';
import { foldedName, freeName, hashFile, makeDirectory, withoutEnding } from '../../files/index.js';
import { type CaseRecord, namesBelow, readRecord } from '../case/index.js';
import type { CasePlace } from './case-place.js';

/** The files of a result, as sorted paths with slashes, relative to its directory. */
const filesOfPlace = ({ directory, prefix }: CasePlace): string[] =>
  namesBelow(directory).filter((name) => name.startsWith(prefix));

/** Whether an output still has the size and the hash that its record states. */
export async function isUnchanged(
  directory: string,
  output: CaseRecord['outputs'][number],
): Promise<boolean> {
  const target = path.join(directory, output.name);
  const stats = lstatSync(target, { throwIfNoEntry: false });
  if (!stats?.isFile() || stats.size !== output.size) return false;
  return (await hashFile(target)).sha256 === output.sha256;
}

/** The unit that a file belongs to: the Zarr store that contains it, or the file itself. */
function unitOf(name: string): string {
  const parts = name.split('/');
  const at = parts.findIndex((part) => /\.zarr$/i.test(part));
  return at < 0 ? name : parts.slice(0, at + 1).join('/');
}

/** The name for an edited output: `mask_edited.nii.gz` for `mask.nii.gz`. */
function editedName(unit: string): string {
  const base = path.posix.basename(unit);
  const volume = withoutEnding(base);
  const stem = volume === base ? path.posix.basename(base, path.posix.extname(base)) : volume;
  return path.posix.join(path.posix.dirname(unit), `${stem}_edited${base.slice(stem.length)}`);
}

/** Creates a hard link, which takes no space, or a copy if the file system has no hard links. */
function link(from: string, to: string): void {
  makeDirectory(path.dirname(to));
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

/** Whether a path is taken, or a file is in the way of one of its directories. */
function isObstructed(directory: string, name: string): boolean {
  const parts = name.split('/');
  return parts.some((_, end) => {
    const stats = lstatSync(path.join(directory, ...parts.slice(0, end + 1)), { throwIfNoEntry: false });
    return stats !== undefined && (end === parts.length - 1 || !stats.isDirectory());
  });
}

/**
 * Carries the user's files over to a new result: files that were added to the earlier result, or edited there, because a user's
 * file is never replaced. An edited output is renamed accordingly (`mask_edited.nii.gz`). If the new result is the one that the
 * user edited, the edited output gets its original name instead, and the app's version of it is dropped. Added files keep their
 * names unless the result needs them.
 * @param complete the directory with the new result
 * @param isForced whether the same result is computed again because the user wants it as the app makes it
 * @returns what the record of the new result says about edited outputs
 */
export async function keepFiles(
  place: CasePlace,
  complete: string,
  record: CaseRecord,
  isForced: boolean,
): Promise<CaseRecord['edited']> {
  const { directory } = place;
  const before = readRecord(directory, place.record);
  const outputs = new Map(before?.outputs.map((each) => [each.name, each]));
  const earlier = new Map(before?.edited.map((each) => [each.name, each]));
  const names = filesOfPlace(place).filter((name) => name !== place.record && name !== before?.log);
  const changed = new Set<string>();
  for (const name of names) {
    const output = outputs.get(name);
    if (output && !(await isUnchanged(directory, output))) changed.add(unitOf(name));
  }
  const isSame = before?.key === record.key && !isForced;
  const edited: CaseRecord['edited'] = [];
  const own = new Set(names.map((name) => foldedName(unitOf(name))));
  const renamed = new Map<string, string>();
  /**
   * Finds a free name for a unit: numbered if the name is taken, at the top of the result if a file is in the way of its
   * directory.
   */
  const free = (unit: string): string => {
    const wanted = editedName(unit);
    const folder = path.posix.dirname(wanted);
    const top = isObstructed(complete, `${folder}/${path.posix.basename(complete)}`) ? '.' : folder;
    const at = (base: string) => path.posix.join(top, base);
    const isUsed = (base: string) => isObstructed(complete, at(base)) || own.has(foldedName(at(base)));
    const name = renamed.get(unit) ?? at(freeName(path.posix.basename(wanted), new Map(), isUsed));
    renamed.set(unit, name);
    return name;
  };
  for (const name of names) {
    const unit = unitOf(name);
    const isChanged = changed.has(unit);
    if (!isChanged && outputs.has(name)) continue;
    const source = path.join(directory, name);
    if (isChanged && isSame) {
      rmSync(path.join(complete, name), { force: true });
      link(source, path.join(complete, name));
      continue;
    }
    const isInTheWay = isChanged || isObstructed(complete, name);
    const target = isInTheWay ? free(unit) + name.slice(unit.length) : name;
    link(source, path.join(complete, target));
    const known = earlier.get(name);
    if (isChanged && before) edited.push({ name: target, from: name, key: before.key });
    else if (known) edited.push({ ...known, name: target });
  }
  // Input and app are the same as when the user edited these.
  for (const { name, from, key } of edited) {
    const target = path.join(complete, from);
    if (key !== record.key || isForced || !existsSync(target)) continue;
    rmSync(target);
    copyFileSync(path.join(complete, name), target);
  }
  return edited;
}
