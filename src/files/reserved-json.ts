import { closeSync, constants, fsyncSync, ftruncateSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { jsonText } from './json-file.js';
import { openDirectory, openOwnFile, readOwnFile } from './own-file.js';
import { syncDirectorySync } from './sync.js';

/** The name of the file that reserves the room. */
const reserveOf = (file: string): string => `${file}.reserved`;

/**
 * Reserves room on the disk for a small JSON file, so that it can still be written when the disk is full.
 * @param bytes longest text that the file will have
 * @param text what `readReserve` finds there until then
 * @throws the system's error: there is no room
 */
export function reserveJsonFile(file: string, bytes: number, text = ''): void {
  rmSync(reserveOf(file), { recursive: true, force: true });
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const descriptor = openOwnFile(reserveOf(file), flags);
  try {
    const room = Buffer.alloc(bytes, ' ');
    room.write(text);
    writeFileSync(descriptor, room);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * The text that the reserved room holds, with the spaces behind it.
 * @returns undefined if no room is reserved
 * @throws NotOurFile, or the system's error
 */
export const readReserve = (file: string, maxBytes: number): string | undefined =>
  readOwnFile(reserveOf(file), maxBytes);

/**
 * Writes the file into its reserved room, once. Bytes and name survive a power cut. One meanwhile may leave neither what the
 * room held nor the new text, so the file that is there should be synced before.
 * @throws the system's error, or NotOurFile if somebody replaced the reserved file
 */
export function writeReservedJson(file: string, value: unknown): void {
  const text = Buffer.from(jsonText(value));
  const descriptor = openOwnFile(reserveOf(file), constants.O_WRONLY);
  try {
    writeFileSync(descriptor, text);
    ftruncateSync(descriptor, text.length);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  using directory = openDirectory(path.dirname(file));
  const target = path.join(directory.path, path.basename(file));
  renameSync(reserveOf(target), target);
  syncDirectorySync(directory.path);
}

/** Gives the room back. */
export const dropReserve = (file: string): void => rmSync(reserveOf(file), { recursive: true, force: true });
