import { close as closeCallback, closeSync, openSync, writev as writevCallback, writevSync } from 'node:fs';
import { promisify } from 'node:util';
import type { DiskWatch } from './disk-room.js';
import type { RequestFlow } from './request-flow.js';
import type { SyncBehind } from './sync-behind.js';

/**
 * Least and most bytes that are gathered for one write. They arrive 64 KiB at a time, and a write takes a tenth of a
 * millisecond of the event loop whatever its size; more than this leaves the processor's cache before it is written.
 */
const leastGathered = 256 << 10;
const mostGathered = 512 << 10;
/** Bytes that the files of all uploads gather together, unless each of them has the least already. */
const gatheredByAll = 8 << 20;
/** Most pieces that are gathered: a client may send a byte at a time, and each piece takes a hundred bytes of memory. */
const mostPieces = 512;
/**
 * Most bytes of a file that is opened, written and closed synchronously: the thread pool takes three times as long. Such a
 * file also keeps no descriptor open while other code runs, and an upload may have thousands of them.
 */
const small = 64 << 10;

/** Files of all uploads that are arriving. */
let arriving = 0;

/** Bytes that one of them gathers for a write. */
const gathered = (): number => Math.max(leastGathered, Math.min(mostGathered, gatheredByAll / arriving));

const writev = promisify(writevCallback);
const close = promisify(closeCallback);

/** Writes one uploaded file while it arrives. Pieces that arrive during a write are written together by the next one. */
export class UploadedFile {
  #descriptor: number | null = null;
  #writing: Promise<void> | null = null;
  #pieces: Buffer[] = [];
  #length = 0;
  #size = 0;
  #isHolding = false;
  #isAbandoned = false;
  #hasArrived = false;

  constructor(
    private readonly path: string,
    private readonly disk: DiskWatch,
    private readonly flow: RequestFlow,
    private readonly behind: SyncBehind,
    /** Called with the error of a write under way. */
    private readonly onFailure: (cause: unknown) => void,
  ) {
    disk.expectFile();
    arriving += 1;
  }

  /** Takes a piece, which is written later and must not be changed until then. */
  take(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#length += piece.length;
    this.#size += piece.length;
    this.disk.expect(piece.length);
    if (!this.#isFull) return;
    if (this.#writing) this.#hold();
    else this.#write();
  }

  /** Writes what is left. Resolves when the file is complete and closed. Null for a small file, which is so at once. */
  finish(): Promise<void> | null {
    this.#arrived();
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

  /** Closes the file of an upload that has failed. */
  async abandon(): Promise<void> {
    this.#arrived();
    this.#isAbandoned = true;
    await this.#writing;
    await this.#close();
  }

  #make(): number {
    const descriptor = openSync(this.path, 'wx', 0o600);
    this.disk.madeFile();
    return descriptor;
  }

  #arrived(): void {
    if (!this.#hasArrived) arriving -= 1;
    this.#hasArrived = true;
  }

  get #isFull(): boolean {
    return this.#length >= gathered() || this.#pieces.length >= mostPieces;
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

  /** Writes while there is enough to write. */
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
    // On a network file system `close` writes what is left, so a large file is not closed on this thread.
    if (this.#size > leastGathered) await close(descriptor);
    else closeSync(descriptor);
  }
}

/** Removes the bytes that a short write has written from the front. */
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
