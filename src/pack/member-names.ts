import { isUtf8 } from 'node:buffer';
import { quoteName } from '../contract/quote.js';
import { freeName } from '../files/free-name.js';
import type { Notes } from '../files/notes.js';
import type { OpenedDirectory } from './opened-directory.js';

/**
 * The names that the files of one directory get in an archive. Names in a zip archive are UTF-8. A file name whose bytes
 * are not valid UTF-8 is decoded as Latin-1, and numbered if a neighbour has that name already.
 */
export class MemberNames {
  readonly #counts = new Map<string, number>();
  readonly #given = new Set<string>();

  /** @param prefix the directory's own name in the archive; empty, or it ends with a slash */
  constructor(
    private readonly directory: OpenedDirectory,
    readonly prefix: string,
    private readonly notes: Notes,
  ) {}

  /** The last part of the archive name of the file whose name has these bytes, one character a byte. */
  of(key: string): string {
    const bytes = Buffer.from(key, 'latin1');
    if (isUtf8(bytes)) return bytes.toString();
    const name = freeName(key, this.#counts, (each) => this.#given.has(each) || this.directory.has(each));
    this.#given.add(name);
    this.notes.add(`A name that is not UTF-8 was changed to ${quoteName(this.prefix + name)}`);
    return name;
  }
}
