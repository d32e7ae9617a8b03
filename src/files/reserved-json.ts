import { closeSync, constants, fsyncSync, ftruncateSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { jsonText } from './json-file.js';
import { openDirectory, openOwnFile, readOwnFile } from './own-file.js';
import { syncDirectorySync } from './sync.js';

/** The name of the file that reserves the space. */
const reserveOf = (file: string): string => `${file}.reserved`;

/**
 * Reserves disk space for a small JSON file, so that it can still be written when the disk is full.
 * @param bytes longest text that the file will have
 * @param text the content that `readReserve` finds until then
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
 * The text in the reserved space, including its trailing spaces.
 * @returns undefined if no space is reserved
 * @throws NotOurFile, or the system's error
 */
export const readReserve = (file: string, maxBytes: number): string | undefined =>
  readOwnFile(reserveOf(file), maxBytes);

/**
 * Writes the file into its reserved space, once. Bytes and name survive a power cut. A power cut in the middle may leave
 * neither the old text nor the new, so the current file should be synced first.
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

/** Gives the reserved space back. */
export const dropReserve = (file: string): void => rmSync(reserveOf(file), { recursive: true, force: true });
