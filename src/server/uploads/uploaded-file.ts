import { close as closeCallback, closeSync, openSync, writev as writevCallback, writevSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { errorCode, syncFile } from '../../files/index.js';
import type { DiskWatch } from './disk-space.js';

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

/** Pauses a request as long as at least one of several independent holders wants it. */
export class RequestFlow {
  #holders = 0;

  constructor(private readonly request: IncomingMessage) {}

  hold(): void {
    this.#holders += 1;
    this.request.pause();
  }

  release(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.request.resume();
  }
}

/** Bytes of a file that are written before a sync starts: the end of an upload waits for the last ones. */
const stretch = 8 << 20;

/** Whether an upload is syncing: only one at a time, because the thread pool has few threads. */
let isBusy = false;

/**
 * Syncs the large files of an upload while more data arrives, so that little is left for the final sync that makes the
 * upload survive a power cut. It opens the files itself, so that closing one never waits for a sync.
 */
export class SyncBehind {
  #file = '';
  #unsynced = 0;
  #syncing: Promise<void> = Promise.resolve();

  /** @param onFailure called with the error of a write that the disk could not complete: the system tells it only once */
  constructor(private readonly onFailure: (cause: unknown) => void) {}

  /** Records that bytes of a file were written. */
  wrote(file: string, bytes: number): void {
    this.#unsynced = file === this.#file ? this.#unsynced + bytes : bytes;
    this.#file = file;
    if (this.#unsynced < stretch || isBusy) return;
    this.#unsynced = 0;
    isBusy = true;
    this.#syncing = this.#sync(file).finally(() => {
      isBusy = false;
    });
  }

  /** Resolves when no sync is in progress. */
  settled(): Promise<void> {
    return this.#syncing;
  }

  async #sync(file: string): Promise<void> {
    try {
      await syncFile(file);
    } catch (cause) {
      // The files of a failed upload may be removed in the meantime.
      if (errorCode(cause) !== 'ENOENT') this.onFailure(cause);
    }
  }
}

/** Writes one uploaded file as it arrives. Pieces that arrive during a write are written together in the next one. */
export class UploadedFile {
  #descriptor: number | null = null;
  #writing: Promise<void> | null = null;
  #pieces: Buffer[] = [];
  #length = 0;
  #size = 0;
  #isHolding = false;
  #isAbandoned = false;

  constructor(
    private readonly path: string,
    private readonly disk: DiskWatch,
    private readonly flow: RequestFlow,
    private readonly behind: SyncBehind,
    /** Called with the error of a write in progress. */
    private readonly onFailure: (cause: unknown) => void,
  ) {
    disk.expectFile();
  }

  /** Takes a piece, which is written later and must not be changed before. */
  take(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#length += piece.length;
    this.#size += piece.length;
    this.disk.expect(piece.length);
    if (!this.#isFull) return;
    if (this.#writing) this.#hold();
    else this.#write();
  }

  /** Writes the rest. Resolves when the file is complete and closed. Null for a small file, which is complete at once. */
  finish(): Promise<void> | null {
    if (this.#descriptor !== null || this.#writing || this.#length > small) return this.#finishLarge();
    this.#descriptor = this.#make();
    try {
      for (let left = this.#length; left > 0; ) {
        const written = writevSync(this.#descriptor, this.#pieces);
        left -= written;
        this.disk.wrote(written);
        if (left > 0) dropWritten(this.#pieces, written);
      }
    } finally {
      closeSync(this.#descriptor);
      this.#descriptor = null;
      this.#pieces = [];
    }
    return null;
  }

  /** Closes the file of a failed upload. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    await this.#writing;
    await this.#close();
  }

  #make(): number {
    const descriptor = openSync(this.path, 'wx', 0o600);
    this.disk.madeFile();
    return descriptor;
  }

  get #isFull(): boolean {
    return this.#length >= gathered || this.#pieces.length >= maxPieces;
  }

  #hold(): void {
    if (this.#isHolding) return;
    this.#isHolding = true;
    this.flow.hold();
  }

  #release(): void {
    if (!this.#isHolding) return;
    this.#isHolding = false;
    this.flow.release();
  }

  /** Writes as long as there is enough data. */
  #write(): void {
    const work = async () => {
      try {
        while (this.#isFull && !this.#isAbandoned) await this.#writePieces();
      } catch (cause) {
        this.#isAbandoned = true;
        this.onFailure(cause);
      } finally {
        this.#writing = null;
        this.#release();
      }
    };
    this.#writing = work();
  }

  async #finishLarge(): Promise<void> {
    try {
      await this.#writing;
      if (!this.#isAbandoned) await this.#writePieces();
    } finally {
      await this.#close();
    }
  }

  async #writePieces(): Promise<void> {
    if (this.disk.isBehind) await this.disk.settled();
    this.#descriptor ??= this.#make();
    const pieces = this.#pieces;
    const length = this.#length;
    this.#pieces = [];
    this.#length = 0;
    this.#release();
    for (let written = 0; written < length; ) {
      const { bytesWritten } = await writev(this.#descriptor, pieces);
      written += bytesWritten;
      this.disk.wrote(bytesWritten);
      this.behind.wrote(this.path, bytesWritten);
      if (written < length) dropWritten(pieces, bytesWritten);
    }
  }

  async #close(): Promise<void> {
    this.#pieces = [];
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    if (descriptor === null) return;
    // On a network file system, `close` writes the remaining data, so a large file is not closed on this thread.
    if (this.#size > gathered) await close(descriptor);
    else closeSync(descriptor);
  }
}

/** Removes the bytes of a partial write from the front. */
function dropWritten(pieces: Buffer[], written: number): void {
  let left = written;
  let count = 0;
  while (pieces[count] && left >= (pieces[count]?.length ?? 0)) {
    left -= pieces[count]?.length ?? 0;
    count += 1;
  }
  pieces.splice(0, count);
  if (pieces[0]) pieces[0] = pieces[0].subarray(left);
}
