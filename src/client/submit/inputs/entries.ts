import { isUtf8 } from 'node:buffer';
import type { Stats } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { faultWithoutPath } from '../../../files/error-code.js';
import { lookAt } from './look.js';
import { byName } from './name-order.js';
import type { Obstacles } from './obstacles.js';

/** A file or a directory in a directory. */
export interface Entry {
  readonly name: string;
  readonly path: string;
  /** Of what a link leads to. */
  readonly stats: Stats;
}

/** Why a file whose name is not UTF-8 cannot be sent: a form and an archive would give it another name. */
export const misnamed = 'has a name that is not UTF-8; rename it';

/**
 * The files and directories of a directory in the order of their names, links followed. What cannot be sent is added to the
 * obstacles: links that lead nowhere, files that cannot be read, FIFOs, sockets, devices, names that are not UTF-8.
 * @param wanted which entries to look at, by their name and path
 */
export async function entriesOf(
  directory: string,
  wanted: (name: string, path: string) => boolean,
  obstacles: Obstacles,
): Promise<Entry[]> {
  const listed = await readdir(directory, { encoding: 'buffer' }).catch((error) => {
    obstacles.add(directory, `cannot be read: ${faultWithoutPath(error)}`);
    return [];
  });
  const names = listed
    .map((bytes) => ({ name: bytes.toString(), bytes }))
    .sort((a, b) => byName(a.name, b.name));
  const entries: Entry[] = [];
  for (const [index, { name, bytes }] of names.entries()) {
    // Lets an interruption through on a slow disk.
    if (index % 64 === 63) await setImmediate();
    const target = path.join(directory, name);
    if (!wanted(name, target)) continue;
    const isNamed = isUtf8(bytes);
    const look = lookAt(target, isNamed ? target : Buffer.concat([Buffer.from(directory + path.sep), bytes]));
    // It was removed since the directory was listed.
    if (!look) continue;
    if (look.fault !== null) obstacles.add(target, look.fault);
    else if (!isNamed) obstacles.add(target, misnamed);
    else entries.push({ name, path: target, stats: look.stats });
  }
  return entries;
}
