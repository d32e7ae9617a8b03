import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';

/** A file to pack, or an empty directory. */
export interface ListedFile {
  /** The name in the archive, with forward slashes. A directory's name ends with a slash. */
  readonly name: string;
  readonly path: string;
  /** Bytes, where whoever listed it has looked. */
  readonly size?: number;
}

/** A file that is being packed. */
export interface OpenedFile {
  readonly name: string;
  readonly stats: Stats;
  /** Open until the next file is asked for; null for an empty directory. */
  readonly file: FileHandle | null;
}

/**
 * Opens files one after the other. Links are followed: a list is made by whom the files belong to, unlike what `walkFiles`
 * finds in a job's output.
 */
export async function* openListed(files: Iterable<ListedFile>): AsyncGenerator<OpenedFile> {
  for (const { name, path } of files) {
    if (name.endsWith('/')) {
      yield { name, stats: await stat(path), file: null };
      continue;
    }
    // Does not block on a FIFO that has taken the file's place.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    yield { name, stats: await file.stat(), file };
  }
}
