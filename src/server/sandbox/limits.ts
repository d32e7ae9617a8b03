import { findProgram } from '../../files/find-program.js';

/** What one job may use; null for as much as there is. */
export interface JobLimits {
  /** Bytes. */
  readonly memory: number | null;
  /** Processes and threads. */
  readonly processes: number | null;
}

/**
 * How many times the memory of a job one process may reserve. A job is ended when it uses more than its limit, which is
 * looked at twice a second; this stops a process that grows faster. A program may reserve more than it uses.
 */
const reserve = 2;

/**
 * The words that a command line begins with, inside the sandbox, so that the kernel holds what it can of the limits: the
 * number of processes, which it counts by sandbox except for root, and what a process may reserve.
 */
export function limitWords({ memory, processes }: JobLimits, searchPath: string): string[] {
  const program = findProgram('prlimit', searchPath) ?? findProgram('prlimit', '/usr/bin:/bin');
  if (program === undefined) return [];
  const words = [
    ...(processes === null ? [] : [`--nproc=${processes}:${processes}`]),
    ...(memory === null ? [] : [`--data=${memory * reserve}:${memory * reserve}`]),
  ];
  return words.length === 0 ? [] : [program, ...words];
}
