import { createHash } from 'node:crypto';
import { statfsSync, statSync } from 'node:fs';
import path from 'node:path';
import { orElse } from '../../files/index.js';
import { type FoundFiles, filesOfUnit } from '../found-files.js';

/**
 * Milliseconds for which files must not have changed before their times are trusted, because the clocks of disks and machines
 * differ.
 */
const quietTime = 120_000;

/**
 * Milliseconds within which a file can be written twice without a change of its times, on file systems that store whole seconds.
 */
const oneTick = 2000;

/** File systems that maintain change times and inodes, by statfs(2): ext, XFS, Btrfs, F2FS, ZFS. Not tmpfs, FUSE or NFS. */
const maintained: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1]);

/** A hash of the names, sizes, times and inodes of files, and the newest of the times in milliseconds. @throws the system's error */
function timesOf(paths: readonly string[]): { readonly stamp: string; readonly newest: number } {
  const hash = createHash('sha256');
  let newest = 0;
  for (const target of paths) {
    const { size, mtimeMs, ctimeMs, ino } = statSync(target);
    newest = Math.max(newest, mtimeMs, ctimeMs);
    hash.update(`${path.basename(target)}\0${size} ${mtimeMs} ${ctimeMs} ${ino}\n`);
  }
  return { stamp: hash.digest('hex'), newest };
}

const pathsOf = (found: FoundFiles): string[] =>
  found.volumes.flatMap(({ groups }) =>
    groups
      .flat()
      .flatMap(filesOfUnit)
      .map((each) => each.path),
  );

/** A hash of the times of the inputs of a case: the same as long as nobody writes to them. @throws the system's error */
export const stampOfInputs = (found: FoundFiles): string => timesOf(pathsOf(found)).stamp;

/** The stamp of a case's inputs; null if a file is missing, which is reported when it is read. */
export const stampIfThere = (found: FoundFiles): string | null => orElse(() => stampOfInputs(found), null);

/** The stamp that a record stores for these files; null if a file was written so recently that its times prove nothing. */
export function stampToRecord(paths: readonly string[], leftAlone = oneTick): string | null {
  const { stamp, newest } = timesOf(paths);
  return Date.now() - newest >= leftAlone ? stamp : null;
}

/** The stamp that a record stores for the inputs of a case. @throws the system's error */
export const inputStampToRecord = (found: FoundFiles): string | null => stampToRecord(pathsOf(found));

/**
 * Whether files are unchanged since a record was written, judging only by their times. False if that is uncertain: if they
 * changed minutes ago, or are on a file system that does not maintain these times.
 * @param stamp of the record
 */
export function areUntouched(paths: readonly string[], stamp: string | null): boolean {
  if (stamp === null) return false;
  try {
    const now = timesOf(paths);
    if (now.stamp !== stamp || Date.now() - now.newest < quietTime) return false;
    const directories = new Set(paths.map((each) => path.dirname(each)));
    return [...directories].every((each) => maintained.has(statfsSync(each).type));
  } catch {
    return false;
  }
}

/** Whether the inputs of a case are unchanged, judging only by their times. */
export const areInputsUntouched = (found: FoundFiles, stamp: string | null): boolean =>
  areUntouched(pathsOf(found), stamp);
