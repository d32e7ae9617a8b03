import { type EventEmitter, once } from 'node:events';
import type { ZipArchive } from 'archiver';
import { CentralDirectory } from './central-directory.js';

/** The entry that archiver's engine (zip-stream, compress-commons) is writing. */
interface EngineEntry {
  name: string;
  getGeneralPurposeBit(): { useUTF8ForNames(yes: boolean): void };
  setMethod(method: number): void;
  setVersionNeededToExtract(version: number): void;
  setSize(size: number): void;
  setCrc(crc: number): void;
}

/** The members of the engine that are changed here. They are private to it; test/pack/pack.test.ts fails if they change. */
interface Engine extends EventEmitter {
  readonly offset: number;
  readonly writableNeedDrain: boolean;
  readonly _archive: {
    centralOffset: number;
    centralLength: number;
    forceZip64: boolean;
    processing: boolean;
    finish: boolean;
    finished: boolean;
  };
  _entries: { readonly length: number; push(entry: EngineEntry): void };
  _writeLocalFileHeader(entry: EngineEntry): void;
  _afterAppend(entry: EngineEntry): void;
  _writeCentralFileHeader(entry: EngineEntry): void;
  _writeCentralDirectoryZip64(): void;
  _writeCentralDirectoryEnd(): void;
  _finish(): void;
  write(bytes: Buffer): boolean;
  end(): void;
  destroy(cause: unknown): void;
}

/** The header that an entry must get, whatever the engine would write. */
export interface EntryHeader {
  readonly name: string;
  /** For content that is deflated already: its size and checksum when inflated. Those of a stream are known at its end. */
  readonly deflated?: { readonly size: number; readonly crc: number };
}

/** From this number of entries, or this size, on zip64 records are needed. */
const zip64Entries = 0xffff;

/** The compression methods in an entry's header. */
const methodStored = 0;
const methodDeflated = 8;
const versionOfDeflate = 20;

/** Says in an entry's header how its content is deflated. */
function describe(entry: EngineEntry, { deflated }: EntryHeader): void {
  if (!deflated) return;
  entry.setMethod(methodDeflated);
  entry.setVersionNeededToExtract(versionOfDeflate);
  entry.setSize(deflated.size);
  entry.setCrc(deflated.crc);
}

/**
 * Changes archiver in three ways for which it has no option:
 *
 * - Names stay as they are. archiver turns `a\b` into `a/b`, and `T1:mask.nii` and `T2:mask.nii` both into `mask.nii`.
 * - The central directory is kept compressed and written piece by piece. archiver keeps 10 KB for each file and writes
 *   everything at once: a result of 300,000 files took 3 GB and blocked the event loop for 4 s.
 * - Content may be deflated before it is added: a small file at once, which saves a stream, and a large one in several threads.
 */
export class ZipEngine {
  readonly #engine: Engine;
  readonly #directory = new CentralDirectory();
  #next: EntryHeader = { name: '' };

  /** @param stop aborted when writing must end */
  constructor(
    zip: ZipArchive,
    private readonly stop: AbortSignal,
  ) {
    this.#engine = (zip as unknown as { _module: { engine: Engine } })._module.engine;
    this.#keepHeaders();
    this.#keepDirectorySmall();
  }

  /** Sets the header of the next entry. */
  expect(header: EntryHeader): void {
    this.#next = header;
  }

  /** Resolves when the archive's reader has caught up. */
  async drained(): Promise<void> {
    if (this.#engine.writableNeedDrain) await once(this.#engine, 'drain', { signal: this.stop });
  }

  #keepHeaders(): void {
    const engine = this.#engine;
    const write = engine._writeLocalFileHeader;
    const end = engine._afterAppend;
    engine._writeLocalFileHeader = (entry) => {
      entry.name = this.#next.name;
      entry.getGeneralPurposeBit().useUTF8ForNames(true);
      describe(entry, this.#next);
      write.call(engine, entry);
      // Otherwise the engine would deflate a stream once more.
      entry.setMethod(methodStored);
    };
    // The engine has counted the content as it stands in the archive.
    engine._afterAppend = (entry) => {
      describe(entry, this.#next);
      end.call(engine, entry);
    };
  }

  #keepDirectorySmall(): void {
    const engine = this.#engine;
    const directory = this.#directory;
    engine._entries = {
      get length() {
        return directory.length;
      },
      push: (entry) => {
        const parts: Buffer[] = [];
        const into = { write: (part: Buffer) => parts.push(part) };
        engine._writeCentralFileHeader.call(into as unknown as Engine, entry);
        directory.add(Buffer.concat(parts));
      },
    };
    engine._finish = () => {
      this.#finish().catch((cause) => engine.destroy(cause));
    };
  }

  async #finish(): Promise<void> {
    const engine = this.#engine;
    const archive = engine._archive;
    archive.centralOffset = engine.offset;
    for (const piece of this.#directory.pieces()) {
      await this.drained();
      engine.write(piece);
    }
    archive.centralLength = engine.offset - archive.centralOffset;
    // archiver begins zip64 one entry later, but readers treat a count of 65,535 as the sign of zip64.
    const largest = Math.max(archive.centralLength, archive.centralOffset);
    if (this.#directory.length >= zip64Entries || largest >= 0xffffffff) archive.forceZip64 = true;
    if (archive.forceZip64) engine._writeCentralDirectoryZip64();
    engine._writeCentralDirectoryEnd();
    archive.processing = false;
    archive.finish = true;
    archive.finished = true;
    engine.end();
  }
}
