import { argumentsOf, directoryOf, readProcess, runningProcesses } from '../../support/processes.mjs';

/** Bytes of memory: now (`VmRSS`), or at most so far (`VmHWM`). 0 for a process that is gone. */
export function memoryOf(pid, which = 'VmRSS') {
  const kibibytes = new RegExp(`^${which}:\\s+(\\d+) kB`, 'm').exec(readProcess(pid, 'status'))?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

/**
 * The running processes that have to do with a directory: by their arguments, their environment or where they
 * stand. A job's processes stand in its workspace even where they have cleared their environment.
 */
export function processesUnder(directory) {
  const wanted = `${directory}/`;
  return runningProcesses()
    .filter((pid) => pid !== process.pid)
    .map((pid) => ({
      pid,
      traces: `${readProcess(pid, 'cmdline')}\0${readProcess(pid, 'environ')}\0${directoryOf(pid)}/`,
    }))
    .filter(({ traces }) => traces.includes(wanted))
    .map(({ pid, traces }) => ({ pid, traces, command: argumentsOf(pid).join(' ') }));
}

/** The processes of a data directory's jobs, each with the job's id: runners, commands, whatever these forked. */
export function jobProcesses(dataDirectory) {
  return processesUnder(dataDirectory).flatMap(({ pid, traces, command }) => {
    const id = traces.split(`${dataDirectory}/jobs/`)[1]?.slice(0, 12);
    return id === undefined ? [] : [{ pid, id, command }];
  });
}
