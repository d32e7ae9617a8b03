import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, fstatSync, statSync } from 'node:fs';
import path from 'node:path';
import {
  appendLines,
  hashFile,
  lastLines,
  makeDirectory,
  openLines,
  privateMode,
  writeTextFile,
} from '../files/index.js';

/** The SHA-256 of a content, in hexadecimal digits, and its length in bytes. */
export interface Digest {
  readonly sha256: string;
  readonly size: number;
}

/** Digits of a key that name its part of the memory: a command with one file reads two or three parts of 256. */
const partDigits = 2;

/** Bytes of a part at which the older half of it is forgotten: all parts together have some 300,000 digests. */
const maxBytes = 128 << 10;

/**
 * Milliseconds for which a file has to have been left alone before its digest is remembered: a file that is written twice within one
 * tick of its file system's clock has the same times both times.
 */
const settled = 2000;

/** How many bytes are hashed before what was found is written down: what a command that is killed has to hash again. */
const mostUnsaved = 64 << 20;

/** A key, a number and a digest. One that was cut off does not match. */
const line = /^([0-9a-f]{32}) (\d{1,16}) ([0-9a-f]{64})$/;

const stampOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  [dev, ino, size, mtimeNs, ctimeNs].join();

/** The stamp of a file: its device, inode, size and times. @throws the system's error */
const stampAt = (file: string): { readonly stamp: string; readonly changedAt: number } => {
  const stats = statSync(file, { bigint: true });
  const newest = stats.mtimeNs > stats.ctimeNs ? stats.mtimeNs : stats.ctimeNs;
  return { stamp: stampOf(stats), changedAt: Number(newest / 1_000_000n) };
};

const keyOf = (...words: readonly string[]): string =>
  createHash('sha256').update(words.join('\0')).digest('hex').slice(0, 32);

/** A part of the memory. */
interface Part {
  readonly known: Map<string, string>;
  readonly unsaved: string[];
}

/** A file among those that a content is made of. */
export interface Ingredient {
  /** Its name in what is made. */
  readonly name: string;
  readonly path: string;
}

/**
 * Remembers the digests of files, and of what is made of them, for as long as nobody touches the files: by their devices, inodes, sizes
 * and times. It also remembers what was sent where. All commands of a user share the memory, which names no file.
 */
export class Digests implements Disposable {
  readonly #directory: string | null;
  readonly #now: () => number;
  readonly #isTrusted: boolean;
  /** Those that were needed so far. */
  readonly #parts = new Map<string, Part>();
  #hashed = 0;

  /**
   * @param directory of the user's cache; null to remember nothing beyond this object
   * @param how.version of the program: another one may make something else of the same files, and so may another Node
   * @param how.isTrusted whether it believes what earlier commands remembered
   */
  constructor(
    directory: string | null,
    private readonly how: {
      readonly version: string;
      readonly isTrusted?: boolean;
      readonly now?: () => number;
    },
  ) {
    this.#directory = directory === null ? null : path.join(directory, 'file-digests');
    this.#isTrusted = how.isTrusted ?? true;
    this.#now = how.now ?? Date.now;
  }

  /**
   * The digest of a file. It is read only if it is not remembered.
   * @param how.isFresh whether it is read in any case
   * @throws the system's error; the reason of the signal
   */
  async ofFile(
    file: string,
    {
      signal,
      isFresh = false,
      onBytes,
    }: {
      readonly signal?: AbortSignal | undefined;
      readonly isFresh?: boolean;
      readonly onBytes?: (hashed: number) => void;
    } = {},
  ): Promise<Digest & { readonly isRemembered: boolean }> {
    const startedAt = this.#now();
    const before = stampAt(file);
    const key = keyOf('file', before.stamp);
    const known = isFresh ? null : this.#recall(key);
    if (known) return { ...known, isRemembered: true };
    const digest = await hashFile(file, signal, onBytes);
    if (stampAt(file).stamp === before.stamp) this.#remember(key, digest, startedAt, before.changedAt);
    this.#hashed += digest.size;
    if (this.#hashed >= mostUnsaved) this.save();
    return { ...digest, isRemembered: false };
  }

  /**
   * The place in the memory of what is made of files.
   * @param how how it is made
   * @throws the system's error for a missing file
   */
  made(how: string, files: readonly Ingredient[]): Made {
    const startedAt = this.#now();
    let changedAt = 0;
    const words = files.flatMap(({ name, path: file }) => {
      const found = stampAt(file);
      changedAt = Math.max(changedAt, found.changedAt);
      return [name, found.stamp];
    });
    const key = keyOf('made', this.how.version, process.version, how, ...words);
    return {
      digest: this.#recall(key),
      remember: (digest) => this.#remember(key, digest, startedAt, changedAt),
    };
  }

  /** When a content was last sent to a server, in milliseconds; null if that is not remembered. */
  sentAt(server: string, sha256: string): number | null {
    return this.#recall(keyOf('sent', server, sha256))?.size ?? null;
  }

  noteSent(server: string, sha256: string): void {
    this.#add(keyOf('sent', server, sha256), { sha256, size: this.#now() });
  }

  /** Writes down what was found. Never throws: it can be found again. */
  save(): void {
    this.#hashed = 0;
    if (this.#directory === null) return;
    try {
      for (const [name, { unsaved }] of this.#parts) {
        if (unsaved.length === 0) continue;
        makeDirectory(this.#directory);
        saveLines(path.join(this.#directory, name), unsaved.splice(0));
      }
    } catch {
      // A home that cannot be written.
    }
  }

  [Symbol.dispose](): void {
    this.save();
  }

  #remember(key: string, digest: Digest, startedAt: number, changedAt: number): void {
    if (startedAt - changedAt >= settled) this.#add(key, digest);
  }

  #add(key: string, { sha256, size }: Digest): void {
    const { known, unsaved } = this.#partOf(key);
    const rest = `${size} ${sha256}`;
    if (known.get(key) === rest) return;
    known.set(key, rest);
    unsaved.push(`${key} ${rest}`);
  }

  #recall(key: string): Digest | null {
    const [size = '', sha256 = ''] = this.#partOf(key).known.get(key)?.split(' ') ?? [];
    return sha256 === '' ? null : { sha256, size: Number(size) };
  }

  #partOf(key: string): Part {
    const name = key.slice(0, partDigits);
    const read = this.#parts.get(name);
    if (read) return read;
    const isRead = this.#isTrusted && this.#directory !== null;
    const part = { known: isRead ? readAll(path.join(this.#directory, name)) : new Map(), unsaved: [] };
    this.#parts.set(name, part);
    return part;
  }
}

/** What is remembered of something that is made of files. */
export interface Made {
  readonly digest: Digest | null;
  readonly remember: (digest: Digest) => void;
}

/** The key of a line, and what follows it; nothing for a damaged line. */
const entryOf = (text: string): (readonly [string, string])[] =>
  line.test(text) ? [[text.slice(0, 32), text.slice(33)]] : [];

/** Appends lines to a part. @throws the system's error */
function saveLines(file: string, lines: readonly string[]): void {
  const descriptor = openLines(file);
  try {
    appendLines(descriptor, lines);
    if (fstatSync(descriptor).size > maxBytes) forgetOldest(file);
  } finally {
    closeSync(descriptor);
  }
}

function forgetOldest(file: string): void {
  const newest = new Map(lastLines(file, maxBytes / 2).flatMap(entryOf));
  writeTextFile(file, [...newest].map(([key, rest]) => `${key} ${rest}\n`).join(''), {
    isKept: false,
    mode: privateMode,
  });
}

function readAll(file: string): Map<string, string> {
  try {
    return new Map(lastLines(file, maxBytes).flatMap(entryOf));
  } catch {
    // The first command, or a file that cannot be read.
    return new Map();
  }
}
