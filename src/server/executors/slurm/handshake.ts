import { closeSync, constants, fstatSync, mkdirSync, readSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { excerpt } from '../../../contract/quote.js';
import { openOwnFile, readOwnFile } from '../../../files/own-file.js';

/** Longest file of these, in bytes. */
const longest = 1 << 20;
/** Bytes from the end of what the batch script printed. */
const tailBytes = 2000;

/**
 * The files by which server and batch script agree on a start, in `Slurm` of the job directory. All are made before the job
 * is submitted and are written in place: a client of NFS asks its server about a file that it opens, and may for half a
 * minute not about one that was not there.
 */
const files = (directory: string) => {
  const own = path.join(directory, 'Slurm');
  const file = (name: string) => path.join(own, name);
  return { own, id: file('id'), placed: file('placed'), go: file('go'), out: file('out') };
};

/** What the batch script prints, which is not the job's log: relative to its working directory, the job directory. */
export const batchOutput = 'Slurm/out';

function overwrite(file: string, text: string): void {
  const descriptor = openOwnFile(file, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC);
  try {
    writeFileSync(descriptor, text);
  } finally {
    closeSync(descriptor);
  }
}

/** Whether somebody has prepared a submission of this job before. */
export const isPrepared = (directory: string): boolean => {
  try {
    return readOwnFile(files(directory).go, longest) !== undefined;
  } catch {
    return true;
  }
};

/** Makes the files before a submission. @throws the system's error */
export function prepare(directory: string): void {
  const { own, placed, go } = files(directory);
  mkdirSync(own, { recursive: true, mode: 0o700 });
  for (const file of [placed, go]) overwrite(file, '');
}

/** Notes Slurm's number of the job, by which accounting is asked after a restart. */
export const noteId = (directory: string, id: number): void => overwrite(files(directory).id, `${id}\n`);

/** That number; null if it was not noted. */
export function notedId(directory: string): number | null {
  try {
    return Number(/^(\d+)\n$/.exec(readOwnFile(files(directory).id, longest) ?? '')?.[1]) || null;
  } catch {
    return null;
  }
}

/** Where Slurm has placed a job. */
export interface Placement {
  readonly node: string;
  /** The devices as CUDA_VISIBLE_DEVICES names them there: numbers, or UUIDs. */
  readonly devices: readonly string[];
  /** How often its batch script was started: a second time if it was queued again. */
  readonly starts: number;
}

const placedLine = /^(\d+) (\S+) (\S+) \.$/gm;

/** What the batch script of this job has written; null if it has not started. */
export function placementOf(directory: string, id: number): Placement | null {
  let text: string | undefined;
  try {
    text = readOwnFile(files(directory).placed, longest);
  } catch {
    return null;
  }
  const lines = [...(text ?? '').matchAll(placedLine)].filter(([, each]) => Number(each) === id);
  const [, , node = '', devices = ''] = lines.at(-1) ?? [];
  if (lines.length === 0) return null;
  return { node, devices: devices === '-' ? [] : devices.split(','), starts: lines.length };
}

/** Lets the batch script of this job go on. @throws the system's error */
export const letGo = (directory: string, id: number): void => overwrite(files(directory).go, `${id}\n`);

/** The last that a batch script printed, in one line; empty if there is nothing. */
export function lastWords(directory: string): string {
  try {
    const descriptor = openOwnFile(files(directory).out, constants.O_RDONLY);
    try {
      const { size } = fstatSync(descriptor);
      const tail = Buffer.alloc(Math.min(size, tailBytes));
      readSync(descriptor, tail, 0, tail.length, size - tail.length);
      const lines = tail.toString().split('\n');
      return excerpt(lines.findLast((line) => line.trim() !== '')?.trim() ?? '', 500);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return '';
  }
}

/** Has a client of NFS ask its server which files the directory has, by making one there. */
export function refreshDirectory(directory: string): void {
  const probe = path.join(directory, `.look-${process.pid}`);
  try {
    closeSync(openOwnFile(probe, constants.O_WRONLY | constants.O_CREAT));
    rmSync(probe, { force: true });
  } catch {
    // The disk is full, or the directory is gone: what is known of it has to do.
  }
}
