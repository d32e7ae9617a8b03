import { existsSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { namesIn } from '../../files/names-in.js';
import { isAlive, runFiles } from '../../runner/index.js';
import { readRunnerRecord } from '../executors/index.js';
import { SetupError } from '../setup-error.js';
import { isOther } from './place.js';

/** The process id of the runner of a job that has not ended; null if none runs, or that cannot be told. */
function runnerOf(job: string): number | null {
  try {
    if (existsSync(runFiles(job).end)) return null;
    const runner = readRunnerRecord(job)?.runner;
    return runner && isAlive(runner) ? runner.pid : null;
  } catch {
    return null;
  }
}

/** The working directory of a process; null if that is removed or cannot be looked at. */
function workingDirectory(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null;
  }
}

/** The directory of the same job elsewhere, in which its runner works; null if there is none. */
function otherDirectory(job: string): string | null {
  const pid = runnerOf(job);
  const works = pid === null ? null : workingDirectory(pid);
  if (works === null || path.basename(works) !== path.basename(job)) return null;
  return isOther(works, job) ? works : null;
}

/**
 * Refuses a copy of a data directory while jobs of the original run on this machine, also without a server: a server of the
 * copy would end their processes, whose ids are in the copy as well. After a move the runners work in the directory
 * itself, and after a restored backup in one that is removed.
 * @throws SetupError that names the directory of such a job
 */
export function refuseJobsElsewhere(directory: string): void {
  const jobs = path.join(directory, 'jobs');
  for (const name of namesIn(jobs)) {
    const other = otherDirectory(path.join(jobs, name));
    if (other === null) continue;
    throw new SetupError(
      `The data directory ${directory} is a copy, and a job of it runs in ${other}: a server of the copy would end that job; ` +
        'start one on the original, or wait until its jobs have ended',
    );
  }
}
