import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import path from 'node:path';

/** The mounted disks, which an interrupted harness must not leave behind. */
const mounted = new Set();
process.once('exit', () => {
  for (const directory of mounted) execFileSync('umount', ['--lazy', directory], { stdio: 'ignore' });
});

/** A small file system in memory. */
export class SmallDisk {
  #isMounted = true;

  constructor(directory) {
    this.directory = directory;
    this.data = path.join(directory, 'data');
  }

  /** @returns null where mounting is not allowed */
  static mount(context, options) {
    const directory = path.join(context.scratch, `disk-${context.serial()}`);
    mkdirSync(directory);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory], { stdio: 'ignore' });
      mounted.add(directory);
      return new SmallDisk(directory);
    } catch {
      rmdirSync(directory);
      return null;
    }
  }

  get free() {
    const { bavail, bsize } = statfsSync(this.directory);
    return bavail * bsize;
  }

  /** Fills the disk except for this many pages of 4 KiB. Returns a function that frees them again. */
  fill(pages = 0) {
    const file = path.join(this.directory, 'ballast');
    const fd = openSync(file, 'w');
    const page = Buffer.alloc(4096, 1);
    const many = Buffer.alloc(256 * 4096, 1);
    try {
      while (this.free > many.length + pages * 4096) writeSync(fd, many);
      while (this.free > pages * 4096) writeSync(fd, page);
    } finally {
      closeSync(fd);
    }
    return () => rmSync(file, { force: true });
  }

  remount(options) {
    execFileSync('mount', ['-o', `remount,${options}`, this.directory], { stdio: 'ignore' });
  }

  unmount() {
    if (!this.#isMounted) return;
    execFileSync('umount', [this.directory], { stdio: 'ignore' });
    this.#isMounted = false;
    mounted.delete(this.directory);
    rmdirSync(this.directory);
  }
}
