import { argumentsOf, environmentOf, runningProcesses } from '../../support/processes.mjs';

const mark = 'REMOTE_APP_JOB_ID=';

/**
 * The processes of these jobs' commands and all that they forked, by the mark in their environment. The fault harness
 * also looks for hidden processes (`faults/support/processes.mjs`); no app of the tests hides any.
 */
export function processesOfJobs(jobIds: ReadonlySet<string>): number[] {
  const jobOf = (pid: number) => environmentOf(pid).find((entry) => entry.startsWith(mark));
  return runningProcesses().filter((pid) => jobIds.has(jobOf(pid)?.slice(mark.length) ?? ''));
}

export const processesOfJob = (jobId: string): number[] => processesOfJobs(new Set([jobId]));

/** The processes that name this path among their arguments: a server's runners name its data directory. */
export const processesNaming = (path: string): number[] =>
  runningProcesses().filter((pid) => argumentsOf(pid).some((argument) => argument.includes(path)));

/** The processes whose environment, as they were started, names a file below this directory. */
export const processesIn = (directory: string): number[] =>
  runningProcesses().filter((pid) => environmentOf(pid).some((entry) => entry.includes(`${directory}/`)));
