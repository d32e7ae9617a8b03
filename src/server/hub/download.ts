import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { quoteName } from '../../contract/quote.js';
import { makeDirectory } from '../../files/make-directory.js';
import { replaceFile } from '../../files/replace-file.js';
import { uniquePart } from './cache-files.js';
import type { Hub } from './hub.js';
import { HubError } from './hub-error.js';
import type { RepositoryCache } from './repository-cache.js';
import type { TreeFile } from './tree.js';

/** Milliseconds without a byte after which a connection counts as broken. */
const silence = 60_000;

/** How often a file is taken up again after its connection broke without a byte since the last time. */
const triesAgain = 4;

/** The hash of a file's content, as the hub names it: Git's hash covers a header as well. */
function hashOf({ sha256, size }: TreeFile): Hash {
  return sha256 === null ? createHash('sha1').update(`blob ${size}\0`) : createHash('sha256');
}

/** One file that is being downloaded. */
class Download {
  #written = 0;
  readonly #hash: Hash;

  constructor(
    private readonly file: TreeFile,
    private readonly handle: FileHandle,
    private readonly onBytes: (count: number) => void,
  ) {
    this.#hash = hashOf(file);
  }

  get written(): number {
    return this.#written;
  }

  /** Writes what comes. @throws HubError for more than the file has */
  async take(content: AsyncIterable<Uint8Array>, alive: () => void): Promise<void> {
    for await (const chunk of content) {
      alive();
      if (this.#written + chunk.length > this.file.size) {
        throw new HubError(
          `${quoteName(this.file.path)} is longer than the ${this.file.size} bytes that are listed`,
        );
      }
      await this.handle.writeFile(chunk);
      this.#hash.update(chunk);
      this.#written += chunk.length;
      this.onBytes(chunk.length);
    }
    if (this.#written < this.file.size)
      throw new HubError(`${quoteName(this.file.path)} ended too early`, true);
  }

  /** @throws HubError if the content is another one than the list of files says */
  check(): void {
    const { path: name, sha256, blobId } = this.file;
    if (this.#hash.digest('hex') === (sha256 ?? blobId)) return;
    throw new HubError(`${quoteName(name)} came with another content than the repository lists`);
  }
}

export interface DownloadOptions {
  readonly hub: Pick<Hub, 'content'>;
  readonly cache: RepositoryCache;
  readonly commit: string;
  readonly signal: AbortSignal;
  readonly onBytes?: (count: number) => void;
  /** Milliseconds before the first time that a broken connection is taken up again. */
  readonly pause?: number;
}

async function receive(download: Download, file: TreeFile, options: DownloadOptions): Promise<void> {
  const { hub, cache, commit, signal, pause = 1000 } = options;
  let failures = 0;
  while (true) {
    const before = download.written;
    const silent = new AbortController();
    const timer = setTimeout(
      () => silent.abort(new HubError(`${quoteName(file.path)} stopped coming`, true)),
      silence,
    );
    try {
      const content = hub.content(
        cache.repository,
        commit,
        file,
        before,
        AbortSignal.any([signal, silent.signal]),
      );
      await download.take(content, () => timer.refresh());
      return;
    } catch (cause) {
      signal.throwIfAborted();
      if (!(cause instanceof HubError && cause.isPassing)) throw cause;
      failures = download.written > before ? 0 : failures + 1;
      if (failures > triesAgain) throw cause;
      await delay(pause * 2 ** failures, undefined, { signal });
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Downloads the content of a file into `blobs`, under a name of its own until it is whole, checked and on the disk. Two
 * processes that do so at once do not meet: the last one replaces what is the same.
 * @throws HubError, or the system's error
 */
export async function downloadBlob(file: TreeFile, options: DownloadOptions): Promise<void> {
  const blob = options.cache.blobFile(file);
  const partial = `${blob}.${uniquePart()}.incomplete`;
  makeDirectory(path.dirname(blob));
  try {
    await using handle = await open(partial, 'wx');
    const download = new Download(file, handle, options.onBytes ?? (() => {}));
    if (file.size > 0) await receive(download, file, options);
    download.check();
    await handle.sync();
    await replaceFile(partial, blob);
  } catch (cause) {
    await rm(partial, { force: true });
    throw cause;
  }
}
