import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('preload.c', import.meta.url));

/** Moves the wall clock of one server (see `preload.c`). */
export class Preload {
  #file;

  constructor(library, file) {
    this.#file = file;
    this.environment = { LD_PRELOAD: library, FAULT_CONTROL: file };
  }

  /** @returns null where there is no C compiler, or no preloading (another system than Linux) */
  static build(context) {
    if (process.platform !== 'linux') return null;
    const library = path.join(context.scratch, `preload-${context.serial()}.so`);
    try {
      execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'], { stdio: 'ignore' });
    } catch {
      return null;
    }
    const file = `${library}.control`;
    writeFileSync(file, Buffer.alloc(8));
    chmodSync(file, 0o666);
    return new Preload(library, file);
  }

  /** Seconds by which the wall clock is off from now on. */
  setClock(seconds) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(seconds));
    const fd = openSync(this.#file, 'r+');
    writeSync(fd, bytes, 0, bytes.length, 0);
    closeSync(fd);
  }
}
