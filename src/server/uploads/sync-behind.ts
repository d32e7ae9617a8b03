import { errorCode } from '../../files/error-code.js';
import { syncFile } from '../../files/sync.js';

/** Bytes of a file that are written before they are synced: the end of an upload waits for the last ones. */
const stretch = 8 << 20;

/** Whether any upload syncs: one at a time, because the thread pool has few threads. */
let isBusy = false;

/**
 * Syncs the large files of an upload while more arrives, so that the disk works meanwhile, and the sync that makes the whole
 * upload survive a power cut has little left to do. It opens the files itself: nobody who closes one has to wait for the disk.
 */
export class SyncBehind {
  #file = '';
  #unsynced = 0;
  #syncing: Promise<void> = Promise.resolve();

  /** @param onFailure called with the error of a write that the disk could not complete: the system tells it only once */
  constructor(private readonly onFailure: (cause: unknown) => void) {}

  /** Notes that bytes of a file are written. */
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

  /** Resolves when no sync is under way. */
  settled(): Promise<void> {
    return this.#syncing;
  }

  async #sync(file: string): Promise<void> {
    try {
      await syncFile(file);
    } catch (cause) {
      // The files of an upload that has failed are removed meanwhile.
      if (errorCode(cause) !== 'ENOENT') this.onFailure(cause);
    }
  }
}
