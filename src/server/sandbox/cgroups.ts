import { readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { orElse } from '../../files/index.js';

/** The cgroup of a server in a unit with `DelegateSubgroup=server`. */
const ofServer = /^0::(\/.+\.service)\/server$/m;

const nameOf = (jobId: string): string => `job-${jobId}`;

/** The directory of a job's cgroup. @param delegated the cgroup below which jobs have their own */
export const cgroupOf = (delegated: string, jobId: string): string => path.join(delegated, nameOf(jobId));

/**
 * The cgroup below which each job may have its own: the one that systemd has delegated to the unit. Null if there is none, or if
 * the server is in that cgroup itself: the server could move, but then systemd could not start the next server there while jobs
 * are running. Removes the cgroups that killed runners have left behind; the kernel refuses to remove those of running jobs.
 */
export function delegatedCgroup(): string | null {
  try {
    const [, unit] = ofServer.exec(readFileSync('/proc/self/cgroup', 'utf8')) ?? [];
    if (unit === undefined) return null;
    const delegated = path.join('/sys/fs/cgroup', unit);
    writeFileSync(path.join(delegated, 'cgroup.subtree_control'), '+memory');
    for (const each of readdirSync(delegated))
      if (each.startsWith(nameOf(''))) orElse(() => rmdirSync(path.join(delegated, each)), undefined);
    return delegated;
  } catch {
    return null;
  }
}
