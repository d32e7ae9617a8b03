import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type FileHandle, open, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError } from '../../archive/index.js';
import { quotePath } from '../../contract/quote.js';
import { replaceFile } from '../../files/replace-file.js';
import { writing } from '../write-error.js';
import type { Place } from './claim-place.js';
import { fileSink, type Sink } from './download.js';

export interface IncomingOptions {
  /** File name of the archive. */
  readonly name: string;
  /** Where it is meant to go, for errors. */
  readonly directory: string;
  /** Claims the directory that it goes to. */
  readonly claim: () => Promise<Place>;
  /** The command that fetches the archive again. */
  readonly again: string;
}

interface Opened {
  readonly place: Place;
  readonly target: string;
  readonly partial: string;
  readonly file: FileHandle;
  readonly sink: Sink;
}

/** Removes what commands that were killed have left of this archive. Never throws. */
async function removeEarlierParts(directory: string, name: string): Promise<void> {
  const isPart = (each: string) =>
    each.startsWith(`${name}.`) && /^[0-9a-f]{8}\.partial$/.test(each.slice(name.length + 1));
  const names = await readdir(directory).catch(() => []);
  const removed = names.filter(isPart).map((each) => rm(path.join(directory, each), { force: true }));
  await Promise.allSettled(removed);
}

/**
 * An archive while it comes. Its directory is claimed, and its file is made, with the first byte: a refusal of the server
 * makes nothing. The file gets its name when it is complete.
 */
export class IncomingArchive implements Sink {
  #opened: Promise<Opened> | undefined;

  constructor(private readonly options: IncomingOptions) {}

  /** The directory and the file; made by the first call. */
  get opened(): Promise<Opened> {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  async seek(offset: number): Promise<boolean> {
    return (await this.opened).sink.seek(offset);
  }

  async write(chunk: Buffer): Promise<boolean> {
    return (await this.opened).sink.write(chunk);
  }

  /**
   * Gives the complete file its name.
   * @throws ArchiveError where another file has got that name meanwhile
   */
  async keep(): Promise<Pick<Opened, 'place' | 'target'>> {
    const { place, target, partial, file } = await this.opened;
    if (!place.mayReplace && existsSync(target)) {
      const what = `${quotePath(target)} is not saved: another file has got this name meanwhile; ${this.#next}`;
      throw new ArchiveError('unplaced', what);
    }
    await writing(target, this.#next, async () => {
      // A network file system reports failed writes here.
      await file.close();
      await replaceFile(partial, target);
    });
    return { place, target };
  }

  /**
   * Removes the part that has come, if the file has not got its name, and gives the directory up. Never throws: the error
   * that led here says more.
   * @param isFinal whether what is there is all that there will be
   */
  async discard(isFinal: boolean): Promise<void> {
    const opened = await this.#opened?.catch(() => null);
    if (!opened) return;
    const { place, partial, file } = opened;
    await file.close().catch(() => {});
    await rm(partial, { force: true }).catch(() => {});
    await (isFinal ? place.done() : place.giveUp()).catch(() => {});
  }

  get #next(): string {
    return `run '${this.options.again}'`;
  }

  async #open(): Promise<Opened> {
    const { name, directory, claim } = this.options;
    const place = await writing(path.resolve(directory, name), this.#next, claim);
    const target = path.join(place.directory, name);
    const partial = `${target}.${randomBytes(4).toString('hex')}.partial`;
    if (place.isHeld) await removeEarlierParts(place.directory, name);
    try {
      const file = await writing(target, this.#next, () => open(partial, 'wx+'));
      return { place, target, partial, file, sink: fileSink(file, target, this.#next) };
    } catch (cause) {
      await place.giveUp();
      throw cause;
    }
  }
}
