import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { orElse } from '../files/errors.js';

/** A number in a file of a cgroup; undefined if the kernel does not tell it. */
function figure(file: string, line = /^(\d+)$/m): number | undefined {
  const digits = line.exec(orElse(() => readFileSync(file, 'utf8'), ''))?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Removes a cgroup, which the kernel allows only once no process is left in it. */
const removeCgroup = (directory: string): void => orElse(() => rmdirSync(directory), undefined);

/** The cgroup (version 2) of a job, in which the kernel enforces its memory, of whatever kind. */
export class Cgroup {
  /** The words that a command line begins with, so that the command and all that it starts are in it. */
  readonly words: readonly string[];

  private constructor(private readonly directory: string) {
    this.words = ['/bin/sh', '-c', 'echo 0 >"$0" && exec "$@"', path.join(directory, 'cgroup.procs')];
  }

  /** @returns null if it cannot be made: the use of memory is then only watched */
  static make(directory: string, memory: number): Cgroup | null {
    try {
      mkdirSync(directory);
      writeFileSync(path.join(directory, 'memory.max'), String(memory));
      // The kernel ends all processes together; otherwise the rest of a job would wait for the one that is gone.
      writeFileSync(path.join(directory, 'memory.oom.group'), '1');
      // Without swap accounting, the file does not exist.
      orElse(() => writeFileSync(path.join(directory, 'memory.swap.max'), '0'), undefined);
      return new Cgroup(directory);
    } catch {
      removeCgroup(directory);
      return null;
    }
  }

  /** Whether the kernel has killed it because it ran out of memory. */
  get hasRunOut(): boolean {
    return (figure(path.join(this.directory, 'memory.events'), /^oom_kill (\d+)$/m) ?? 0) > 0;
  }

  remove(): void {
    removeCgroup(this.directory);
  }
}
