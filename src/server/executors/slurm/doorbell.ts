import { EventEmitter } from 'node:events';
import { closeSync, constants, type FSWatcher, fstatSync, readSync, watch } from 'node:fs';
import { openOwnFile } from '../../../files/own-file.js';

/** Milliseconds between two looks at the file, since a network file system tells nobody that it has changed. */
const interval = 100;

/**
 * A file of the data directory to which the batch script of every job adds Slurm's number of the job when it starts and
 * when it has ended: one file to look at, however many jobs wait. A number that is lost, because two nodes wrote at once,
 * is made up for by what squeue says.
 */
export class Doorbell extends EventEmitter<{ ring: [id: number] }> {
  #position = 0;
  #followers = 0;
  #timer: NodeJS.Timeout | undefined;
  #watcher: FSWatcher | undefined;

  /** Empties the file. @throws the system's error */
  constructor(readonly file: string) {
    super();
    closeSync(openOwnFile(file, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC));
  }

  /** Listens until the function that this returns is called. */
  follow(): () => void {
    let isFollowing = true;
    this.#followers += 1;
    if (this.#followers === 1) this.#start();
    return () => {
      if (!isFollowing) return;
      isFollowing = false;
      this.#followers -= 1;
      if (this.#followers === 0) this.#stop();
    };
  }

  #start(): void {
    this.#timer = setInterval(() => this.#look(), interval).unref();
    try {
      // Tells at once on a local file system.
      this.#watcher = watch(this.file, { persistent: false }, () => this.#look());
      this.#watcher.on('error', () => {});
    } catch {
      // The system has no more watches.
    }
    this.#look();
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#watcher?.close();
  }

  #look(): void {
    for (const line of this.#read().split('\n')) {
      const id = Number(line);
      if (Number.isInteger(id) && id > 0) this.emit('ring', id);
    }
  }

  /** What was added since the last look. */
  #read(): string {
    try {
      const descriptor = openOwnFile(this.file, constants.O_RDONLY);
      try {
        const { size } = fstatSync(descriptor);
        if (size < this.#position) this.#position = 0;
        const added = Buffer.alloc(Math.min(size - this.#position, 1 << 16));
        const length = readSync(descriptor, added, 0, added.length, this.#position);
        this.#position += length;
        return added.toString('latin1', 0, length);
      } finally {
        closeSync(descriptor);
      }
    } catch {
      return '';
    }
  }
}
