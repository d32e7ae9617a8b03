import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { TimeSlice, thisBoot } from '../files/clocks.js';
import { errorCode } from '../files/errors.js';
import { hasProc, isAnswer, isSignalable, processIds, readStatus } from '../files/process-status.js';
import { jobMarker, outputFifo, type ProcessIdentity } from './protocol.js';

/** The identity of a running process, by which a later server can recognise it. */
export const identify = (pid: number): ProcessIdentity => ({
  pid,
  startTime: readStatus(pid)?.startTime ?? 0,
  boot: thisBoot(),
});

/**
 * Whether this very process is still running, and not a later one with the same id.
 * @throws the system's error if that cannot be determined
 */
export function isAlive({ pid, startTime, boot }: ProcessIdentity): boolean {
  if (!hasProc) return isSignalable(pid);
  if (boot !== '' && boot !== thisBoot()) return false;
  const status = readStatus(pid);
  return status !== undefined && !status.isZombie && status.startTime === startTime;
}

/** The ids and directories of all processes that run one of our programs. Each such process works in its own directory. */
function* processesOf(program: string): Generator<{ readonly pid: number; readonly directory: string }> {
  for (const pid of hasProc ? processIds() : []) {
    if (pid === process.pid || !argumentsOf(pid)[1]?.endsWith(program)) continue;
    const directory = targetOf(`/proc/${pid}/cwd`);
    if (directory !== undefined) yield { pid, directory: directory.replace(/ \(deleted\)$/, '') };
  }
}

function processIn(program: string, wanted: string): ProcessIdentity | undefined {
  for (const { pid, directory } of processesOf(program)) if (directory === wanted) return identify(pid);
  return undefined;
}

/**
 * All runners of this machine, by process id and job directory. Linux only.
 * @throws the system's error if a process could not be examined
 */
export const runners = () => processesOf('/runner/main.js');

/**
 * Finds the runner of a job by its working directory; used if the runner's record cannot be read.
 * @throws the system's error if a process could not be examined
 */
export const runnerIn = (directory: string) => processIn('/runner/main.js', directory);

/**
 * Finds the worker host of a worker by its working directory.
 * @throws the system's error if a process could not be examined
 */
export const workerHostIn = (directory: string) => processIn('/runner/worker-host-main.js', directory);

function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch (cause) {
    if (isAnswer(cause)) return [];
    throw cause;
  }
}

/** What was found about a process: the information that shows which job it belongs to. */
interface Sighting {
  readonly pid: number;
  /** Ids of the jobs that are named in the environment that the process was started with. */
  readonly jobs: readonly string[];
  /** Paths of the files that the process has open. */
  readonly open: readonly string[];
}

/**
 * Which processes to examine. A process that started the job itself can skip all older processes, which are nearly all on a
 * machine.
 */
export type Age = 'any' | 'younger';

/** Maximum number of descriptors examined per process, lowest first. A shell, which holds the pipe open, has only a few. */
const maxDescriptors = 64;

const assignment = `${jobMarker}=`;

/**
 * Ids of the jobs and workers that a process was started for.
 * @throws the system's error if the process has ended or belongs to another user
 */
export function jobsOf(pid: number): string[] {
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
  if (!environment.includes(assignment)) return [];
  const entries = environment.split('\0').filter((entry) => entry.startsWith(assignment));
  return entries.map((entry) => entry.slice(assignment.length));
}

/** The target of a link in `/proc`; undefined if the link or the process is gone, or the path is too long for the system. */
function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch (cause) {
    if (isAnswer(cause) || errorCode(cause) === 'ENAMETOOLONG') return undefined;
    throw cause;
  }
}

/** Paths of the files that a process has open, including deleted ones. */
function openFilesOf(pid: number): string[] {
  const directory = `/proc/${pid}/fd`;
  const descriptors = readdirSync(directory).slice(0, maxDescriptors);
  return descriptors.flatMap((each) => targetOf(`${directory}/${each}`) ?? []);
}

function examine(pid: number): Sighting {
  try {
    return { pid, jobs: jobsOf(pid), open: openFilesOf(pid) };
  } catch (cause) {
    if (!isAnswer(cause)) throw cause;
    // The process has ended, or belongs to another user.
    return { pid, jobs: [], open: [] };
  }
}

const startOf = (pid: number): number => readStatus(pid)?.startTime ?? 0;

/** Examines all other processes, pausing for other work, because a machine may have thousands. */
async function examineAll(age: Age): Promise<readonly Sighting[]> {
  const slice = new TimeSlice();
  const sightings: Sighting[] = [];
  const ownStart = startOf(process.pid);
  for (const pid of processIds()) {
    if (pid === process.pid) continue;
    // Start times are compared in clock ticks, and two processes may start in the same tick.
    if (age === 'any' || startOf(pid) >= ownStart) sightings.push(examine(pid));
    await slice.pause();
  }
  return sightings;
}

/**
 * The running processes that name a job in their environment or have its pipe open, and all others in their sessions. This
 * includes processes that have left the job's process group. Empty if the system has no `/proc`.
 * @param age `younger` if this process has started the job
 * @throws the system's error if a process could not be examined
 */
export async function processesOfJob(jobId: string, pipe: string, age: Age = 'any'): Promise<number[]> {
  if (!hasProc) return [];
  const sightings = await examineAll(age);
  const isMarked = ({ jobs, open }: Sighting) =>
    jobs.includes(jobId) || open.some((file) => file.startsWith(pipe));
  const marked = new Set(sightings.filter(isMarked).map(({ pid }) => pid));
  if (marked.size === 0) return [];
  const sessions = new Set([...marked].map((pid) => readStatus(pid)?.session));
  sessions.delete(readStatus(process.pid)?.session);
  // 0 is the session that all processes show whose session is outside this PID namespace.
  sessions.delete(0);
  return sightings.flatMap(({ pid }) => {
    const status = readStatus(pid);
    const isOfJob = status && !status.isZombie && (marked.has(pid) || sessions.has(status.session));
    return isOfJob ? [pid] : [];
  });
}

/**
 * Size in bytes of the deleted files on a disk that a process still has open. @param seen files that have already been counted
 */
function removedFilesOf(pid: number, disk: number, seen: Set<number>): number {
  let bytes = 0;
  try {
    for (const each of readdirSync(`/proc/${pid}/fd`)) {
      const stats = statSync(`/proc/${pid}/fd/${each}`, { throwIfNoEntry: false });
      if (!stats?.isFile() || stats.nlink > 0 || stats.dev !== disk || seen.has(stats.ino)) continue;
      seen.add(stats.ino);
      bytes += stats.blocks * 512;
    }
  } catch (cause) {
    // The process has ended, or belongs to another user.
    if (!isAnswer(cause)) throw cause;
  }
  return bytes;
}

/**
 * Size in bytes of the deleted files that processes of a job still have open.
 * @param ids of the job, and of its worker
 * @param directory a directory on the disk to examine
 */
export async function removedButOpen(ids: readonly string[], directory: string): Promise<number> {
  if (!hasProc) return 0;
  try {
    const disk = statSync(directory).dev;
    const seen = new Set<number>();
    let bytes = 0;
    for (const id of ids) {
      for (const pid of await processesOfJob(id, outputFifo(directory)))
        bytes += removedFilesOf(pid, disk, seen);
    }
    return bytes;
  } catch {
    // The processes cannot be listed at the moment, or the directory is gone. The next measurement will notice.
    return 0;
  }
}
