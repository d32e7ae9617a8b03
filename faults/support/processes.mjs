import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

function read(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

function workingDirectory(pid) {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}

/** Whether it runs; an ended one that nobody has noticed does not. */
export function isRunning(pid) {
  const stat = read(pid, 'stat');
  return stat !== '' && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
}

export const commandOf = (pid) => read(pid, 'cmdline').split('\0').slice(0, -1);
export const environmentOf = (pid) => read(pid, 'environ').split('\0').slice(0, -1);

/** Bytes of memory: now (`VmRSS`), or at most so far (`VmHWM`). 0 for a process that is gone. */
export function memoryOf(pid, which = 'VmRSS') {
  const kibibytes = new RegExp(`^${which}:\\s+(\\d+) kB`, 'm').exec(read(pid, 'status'))?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

/**
 * The running processes that have to do with a directory: by their arguments, their environment or where they
 * stand. A job's processes stand in its workspace even where they have cleared their environment.
 */
export function processesUnder(directory) {
  const wanted = `${directory}/`;
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && isRunning(pid))
    .map((pid) => ({
      pid,
      traces: `${read(pid, 'cmdline')}\0${read(pid, 'environ')}\0${workingDirectory(pid)}/`,
    }))
    .filter(({ traces }) => traces.includes(wanted))
    .map(({ pid, traces }) => ({ pid, traces, command: commandOf(pid).join(' ') }));
}

/** The processes of a data directory's jobs, each with the job's id: runners, commands, whatever these forked. */
export function jobProcesses(dataDirectory) {
  return processesUnder(dataDirectory).flatMap(({ pid, traces, command }) => {
    const id = traces.split(`${dataDirectory}/jobs/`)[1]?.slice(0, 12);
    return id === undefined ? [] : [{ pid, id, command }];
  });
}
