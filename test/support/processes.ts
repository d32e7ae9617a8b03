import { readdirSync, readlinkSync } from 'node:fs';
import { allProcesses, argumentsOf, directoryOf, environmentOf, isRunning } from './processes.mjs';

const mark = 'REMOTE_APP_JOB_ID=';

/** How to recognise processes. */
interface Marks {
  /** They are a job's command, or were forked by it. */
  readonly jobs?: ReadonlySet<string>;
  /** One of their arguments contains this. */
  readonly argument?: string;
  /** Their working directory contains this. */
  readonly directory?: string | undefined;
  /** A value in their initial environment contains this. */
  readonly environment?: string;
}

/**
 * The processes that have one of these marks. The fault harness also looks for hidden processes
 * (`test/faults/support/processes.mjs`); no app of the tests hides any.
 */
export function processesWith({ jobs, argument, directory, environment }: Marks): number[] {
  return allProcesses().filter((pid) => {
    const words = argumentsOf(pid);
    // Threads of the kernel, and zombies, have neither arguments nor an environment.
    if (words.length === 0) return false;
    if (argument !== undefined && words.some((each) => each.includes(argument))) return true;
    if (directory !== undefined && directoryOf(pid).includes(directory)) return true;
    if (!jobs && environment === undefined) return false;
    const entries = environmentOf(pid);
    const job = entries.find((entry) => entry.startsWith(mark))?.slice(mark.length);
    return (
      (job !== undefined && jobs?.has(job)) ||
      (environment !== undefined && entries.some((entry) => entry.includes(environment)))
    );
  });
}

export const processesOfJob = (jobId: string): number[] => processesWith({ jobs: new Set([jobId]) });

/** The processes that name this path among their arguments, or work below it, as a server's runners do. */
export const processesNaming = (path: string): number[] => processesWith({ argument: path, directory: path });

/**
 * The files that the descriptors of a process refer to, by number, without those that are closed meanwhile. Empty if the process
 * has ended.
 */
export const openFilesOf = (pid: number): ReadonlyMap<string, string> => {
  const linkOf = (fd: string): [string, string][] => {
    try {
      return [[fd, readlinkSync(`/proc/${pid}/fd/${fd}`)]];
    } catch {
      return [];
    }
  };
  try {
    return new Map(readdirSync(`/proc/${pid}/fd`).flatMap(linkOf));
  } catch (cause) {
    if (isRunning(pid)) throw cause;
    return new Map();
  }
};
