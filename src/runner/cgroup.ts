import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { orElse } from '../files/errors.js';

/** A number in a file of a cgroup; undefined if the kernel does not provide it. */
function figure(file: string, line = /^(\d+)$/m): number | undefined {
  const digits = line.exec(orElse(() => readFileSync(file, 'utf8'), ''))?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Removes a cgroup, which the kernel allows only once no process is left in it. */
const removeCgroup = (directory: string): void => orElse(() => rmdirSync(directory), undefined);

/** A job's cgroup (version 2), through which the kernel limits the memory of all kinds that the job uses. */
export class Cgroup {
  /** The words to put before a command line, so that the command and everything that it starts run in the cgroup. */
  readonly words: readonly string[];

  private constructor(private readonly directory: string) {
    this.words = ['/bin/sh', '-c', 'echo 0 >"$0" && exec "$@"', path.join(directory, 'cgroup.procs')];
  }

  /** Creates a cgroup with a memory limit. @returns null if that is impossible; memory use is then only watched */
  static make(directory: string, memory: number): Cgroup | null {
    try {
      mkdirSync(directory);
      writeFileSync(path.join(directory, 'memory.max'), String(memory));
      // Makes the kernel kill all processes of the job together; otherwise the others would wait for the one that was killed.
      writeFileSync(path.join(directory, 'memory.oom.group'), '1');
      // The file does not exist without swap accounting.
      orElse(() => writeFileSync(path.join(directory, 'memory.swap.max'), '0'), undefined);
      return new Cgroup(directory);
    } catch {
      removeCgroup(directory);
      return null;
    }
  }

  /** Whether the kernel has killed a process of the job because memory ran out. */
  get hasRunOut(): boolean {
    return (figure(path.join(this.directory, 'memory.events'), /^oom_kill (\d+)$/m) ?? 0) > 0;
  }

  remove(): void {
    removeCgroup(this.directory);
  }
}
