import { readdirSync, readFileSync } from 'node:fs';

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

/** Whether it runs; an ended one that nobody has noticed does not. */
export function isRunning(pid: number): boolean {
  const stat = read(pid, 'stat');
  return stat !== '' && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
}

const running = (): number[] => readdirSync('/proc').map(Number).filter(isRunning);

/** Arguments of a process. */
export const argumentsOf = (pid: number): string[] => read(pid, 'cmdline').split('\0').slice(0, -1);

/** Environment that a process was started with. */
export const environmentOf = (pid: number): string[] => read(pid, 'environ').split('\0').slice(0, -1);

const mark = 'REMOTE_APP_JOB_ID=';

/** The processes of these jobs' commands and whatever these forked, by the mark in their environment. */
export function processesOfJobs(jobIds: ReadonlySet<string>): number[] {
  const jobOf = (pid: number) => environmentOf(pid).find((entry) => entry.startsWith(mark));
  return running().filter((pid) => jobIds.has(jobOf(pid)?.slice(mark.length) ?? ''));
}

export const processesOfJob = (jobId: string): number[] => processesOfJobs(new Set([jobId]));

/** The processes that name this path among their arguments: a server's runners name its data directory. */
export const processesNaming = (path: string): number[] =>
  running().filter((pid) => argumentsOf(pid).some((argument) => argument.includes(path)));
