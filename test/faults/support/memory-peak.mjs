import { writeFileSync } from 'node:fs';
import { memoryOf } from './processes.mjs';

/** The highest memory of a process from now on, not since its start, where the kernel lets this be asked. */
export class MemoryPeak {
  constructor(pid) {
    this.pid = pid;
    try {
      // 5 sets VmHWM back to what is in use now (proc(5), clear_refs).
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
    } catch {
      // Then it is the highest since the start: the growth is seen as smaller than it is, never as larger.
    }
    this.before = memoryOf(pid, 'VmHWM');
  }

  /** Bytes by which it has grown at most. */
  get growth() {
    return Math.max(0, memoryOf(this.pid, 'VmHWM') - this.before);
  }
}
