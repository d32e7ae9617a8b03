import { type EventEmitter, once } from 'node:events';
import type { ZipArchive } from 'archiver';
import { CentralDirectory } from './central-directory.js';

/** What archiver's engine (zip-stream, compress-commons) knows of the entry that it writes. */
interface EngineEntry {
  name: string;
  getGeneralPurposeBit(): { useUTF8ForNames(yes: boolean): void };
  setMethod(method: number): void;
  setVersionNeededToExtract(version: number): void;
  setSize(size: number): void;
  setCrc(crc: number): void;
}

/** The engine, as far as it is changed here. Its names are its own; test/pack/pack.test.ts notices other ones. */
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
  _writeCentralFileHeader(entry: EngineEntry): void;
  _writeCentralDirectoryZip64(): void;
  _writeCentralDirectoryEnd(): void;
  _finish(): void;
  write(bytes: Buffer): boolean;
  end(): void;
  destroy(cause: unknown): void;
}

/** What an entry is to be, whatever the engine makes of it. */
export interface EntryHeader {
  readonly name: string;
  /** Of bytes that were deflated beforehand: what they are without. */
  readonly deflated?: { readonly size: number; readonly crc: number };
}

/** Number of entries, and size, from which on only the records of zip64 have room for it. */
const zip64Entries = 0xffff;

/** Deflated, as an entry's header says it. */
const methodDeflated = 8;
const versionOfDeflate = 20;

/**
 * Changes what archiver does in three ways, for which it has no setting:
 *
 * - Names stay as they are. archiver turns `a\b` into `a/b`, and `T1:mask.nii` and `T2:mask.nii` both into `mask.nii`.
 * - The directory is kept small, and written with the pauses that its reader needs. archiver keeps 10 KB for each file
 *   and writes all of it at once: a result of 300,000 files took 3 GB and 4 s without a pause.
 * - Small files may come deflated, which spares them a stream each.
 */
export class ZipEngine {
  readonly #engine: Engine;
  readonly #directory = new CentralDirectory();
  #next: EntryHeader = { name: '' };

  /** @param stop what ends the writing */
  constructor(
    zip: ZipArchive,
    private readonly stop: AbortSignal,
  ) {
    this.#engine = (zip as unknown as { _module: { engine: Engine } })._module.engine;
    this.#keepNames();
    this.#keepDirectorySmall();
  }

  /** What the next entry is to be. */
  expect(header: EntryHeader): void {
    this.#next = header;
  }

  /** Resolves when the archive's reader has caught up. */
  async drained(): Promise<void> {
    if (this.#engine.writableNeedDrain) await once(this.#engine, 'drain', { signal: this.stop });
  }

  #keepNames(): void {
    const engine = this.#engine;
    const write = engine._writeLocalFileHeader;
    engine._writeLocalFileHeader = (entry) => {
      const { name, deflated } = this.#next;
      entry.name = name;
      entry.getGeneralPurposeBit().useUTF8ForNames(true);
      if (deflated) {
        entry.setMethod(methodDeflated);
        entry.setVersionNeededToExtract(versionOfDeflate);
        entry.setSize(deflated.size);
        entry.setCrc(deflated.crc);
      }
      write.call(engine, entry);
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
    // archiver takes zip64 for one entry more: readers take a count of 65,535 for the sign of it.
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
