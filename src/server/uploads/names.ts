import { createHash } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import path from 'node:path';
import type { Owner } from '../../access/index.js';

/** The directory of an owner's uploads: a name that tells nobody who that is, and that a restart finds again. */
export const directoryName = (owner: Owner): string =>
  createHash('sha256')
    .update(`uploads of ${JSON.stringify(owner)}`)
    .digest('hex')
    .slice(0, 32);

export const directoryPattern = /^[0-9a-f]{32}$/;

const filePattern = /^([0-9a-f]{64})(?:\.(\d{1,15})\.part)?$/;

/** What the name of an upload's file tells: all there is to know of it besides its size and its times. */
export interface FileName {
  readonly sha256: string;
  /** Bytes that it will have; null for one that is whole. */
  readonly length: number | null;
}

/** Null for a name that is not of an upload. */
export function readFileName(name: string): FileName | null {
  const [, sha256, length] = filePattern.exec(name) ?? [];
  if (sha256 === undefined) return null;
  return { sha256, length: length === undefined ? null : Number(length) };
}

export const wholeFile = (directory: string, sha256: string): string => path.join(directory, sha256);
export const partFile = (directory: string, sha256: string, length: number): string =>
  path.join(directory, `${sha256}.${length}.part`);

/** Makes an empty file that only this user can read. @throws EEXIST */
export const makeFile = (file: string): void => closeSync(openSync(file, 'wx', 0o600));
