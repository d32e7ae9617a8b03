import { close as closeCallback, closeSync, openSync, writev as writevCallback, writevSync } from 'node:fs';
import { promisify } from 'node:util';
import { errorCode, syncFile } from '../../files/index.js';
import type { DiskWatch } from './disk-space.js';
import type { UploadTurns } from './limits.js';

/**
 * Bytes that are collected for one write: they arrive in pieces of 64 KiB, and every write costs the event loop the same.
 */
const gathered = 256 << 10;
/** Most pieces that are collected: a client may send single bytes, and each piece takes a hundred bytes of memory. */
const maxPieces = 512;
/**
 * Most bytes of a file that is opened, written and closed synchronously: the thread pool takes three times as long. Such a
 * file also keeps no descriptor open while other code runs, and an upload may have thousands of them.
 */
const small = 64 << 10;

const writev = promisify(writevCallback);
const close = promisify(closeCallback);

/** Bytes of a file that are written before a sync starts: the end of an upload waits for the last ones. */
const stretch = 8 << 20;

/**
 * Syncs the large files of an upload while more data arrives, so that little is left for the final sync that makes the
 * upload survive a power cut. It opens the files itself, so that closing one never waits for a sync.
 */
export class SyncBehind {
  #file = '';
  #unsynced = 0;
  #syncing: Promise<void> = Promise.resolve();
  #failure: unknown = null;

  /** @param turns only one upload syncs at a time */
  constructor(private readonly turns: UploadTurns) {}

  /** Records that bytes of a file were written. */
  wrote(file: string, bytes: number): void {
    this.#unsynced = file === this.#file ? this.#unsynced + bytes : bytes;
    this.#file = file;
    if (this.#unsynced < stretch || this.turns.isSyncing) return;
    this.#unsynced = 0;
    this.turns.isSyncing = true;
    this.#syncing = this.#sync(file).finally(() => {
      this.turns.isSyncing = false;
    });
  }

  /**
   * Resolves when no sync is in progress.
   * @throws the error of a write that the disk could not complete: the system tells it only once
   */
  async settled(): Promise<void> {
    await this.#syncing;
    if (this.#failure !== null) throw this.#failure;
  }

  async #sync(file: string): Promise<void> {
    try {
      await syncFile(file);
    } catch (cause) {
      // The files of a failed upload may be removed in the meantime.
      if (errorCode(cause) !== 'ENOENT') this.#failure ??= cause;
    }
  }
}

/** Writes one uploaded file as it arrives. Pieces that arrive during a write are written together in the next one. */
export class UploadedFile {
  #descriptor: number | null = null;
  #writing: Promise<void> | null = null;
  #pieces: Buffer[] = [];
  #length = 0;
  #isAbandoned = false;

  constructor(
    private readonly path: string,
    private readonly disk: DiskWatch,
    private readonly behind: SyncBehind,
  ) {}

  /**
   * Takes a piece, which is written later and must not be changed before.
   * @returns when the next piece may come; undefined for at once
   * @throws the error of an earlier write
   */
  take(piece: Buffer): Promise<void> | undefined {
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#length < gathered && this.#pieces.length < maxPieces) return undefined;
    if (this.#writing) return this.#writing.then(() => this.#write());
    this.#write();
    return undefined;
  }

  /** Writes the rest. @returns when the file is complete and closed; undefined for a small file, which is complete at once */
  finish(): Promise<void> | undefined {
    if (this.#writing || this.#length > small) return this.#finishLarge();
    const descriptor = openSync(this.path, 'wx', 0o600);
    try {
      for (let left = this.#length; left > 0; ) {
        const written = writevSync(descriptor, this.#pieces);
        left -= written;
        if (left > 0) dropWritten(this.#pieces, written);
      }
    } finally {
      closeSync(descriptor);
    }
    this.disk.wroteFile(this.#length);
    this.#pieces = [];
    return undefined;
  }

  /** Closes the file of a failed upload. Never rejects. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    await this.#writing?.catch(() => {});
    await this.#close().catch(() => {});
  }

  /** Starts to write what was collected. */
  #write(): void {
    this.#writing = this.#writePieces();
    // The error is thrown when the next piece comes, or when the file ends.
    this.#writing.catch(() => {});
  }

  async #finishLarge(): Promise<void> {
    await this.#writing;
    this.#write();
    await this.#writing;
    await this.#close();
  }

  async #writePieces(): Promise<void> {
    if (this.#isAbandoned) return;
    this.#descriptor ??= openSync(this.path, 'wx', 0o600);
    const pieces = this.#pieces;
    const length = this.#length;
    this.#pieces = [];
    this.#length = 0;
    for (let written = 0; written < length; ) {
      const { bytesWritten } = await writev(this.#descriptor, pieces);
      written += bytesWritten;
      this.behind.wrote(this.path, bytesWritten);
      if (written < length) dropWritten(pieces, bytesWritten);
    }
    await this.disk.wrote(length);
  }

  /** On a network file system, `close` writes the remaining data, so a large file is not closed on this thread. */
  async #close(): Promise<void> {
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    if (descriptor !== null) await close(descriptor);
  }
}

/** Removes the bytes of a partial write from the front. */
export function dropWritten(pieces: Buffer[], written: number): void {
  let left = written;
  let count = 0;
  while (pieces[count] && left >= (pieces[count]?.length ?? 0)) {
    left -= pieces[count]?.length ?? 0;
    count += 1;
  }
  pieces.splice(0, count);
  if (pieces[0]) pieces[0] = pieces[0].subarray(left);
}
