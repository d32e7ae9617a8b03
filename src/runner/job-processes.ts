import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TimeSlice } from '../files/time-slice.js';
import { hasProc, isAnswer, processIds, readStatus } from './process-table.js';
import { jobMarker } from './protocol.js';

/** What tells which jobs a process belongs to. */
interface Sighting {
  readonly pid: number;
  /** Ids of the jobs that the environment which it was started with names. */
  readonly jobs: readonly string[];
  /** The files that it has open. */
  readonly open: readonly string[];
}

/** Most descriptors of a process that are looked at, the lowest first: one with more is not a shell. */
const mostDescriptors = 64;

/** Does something with a process that may be gone or another user's by now: then the result is empty. */
function unlessGone<T>(read: () => readonly T[]): readonly T[] {
  try {
    return read();
  } catch (cause) {
    if (isAnswer(cause)) return [];
    throw cause;
  }
}

const assignment = `${jobMarker}=`;

function jobsOf(pid: number): string[] {
  const environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
  if (!environment.includes(assignment)) return [];
  const entries = environment.split('\0').filter((entry) => entry.startsWith(assignment));
  return entries.map((entry) => entry.slice(assignment.length));
}

/** The files that a process has open, also deleted ones and a shell's copy of its own output. */
function openFilesOf(pid: number, isThorough: boolean): string[] {
  const directory = `/proc/${pid}/fd`;
  const descriptors = isThorough ? readdirSync(directory).slice(0, mostDescriptors) : ['1', '2'];
  return descriptors.flatMap((each) => unlessGone(() => [readlinkSync(`${directory}/${each}`)]));
}

/** Looks at every other process. Other work is done in between: a machine may have thousands. */
async function lookAtAll(isThorough: boolean): Promise<readonly Sighting[]> {
  const slice = new TimeSlice();
  const sightings: Sighting[] = [];
  for (const pid of processIds()) {
    if (pid === process.pid) continue;
    const jobs = unlessGone(() => jobsOf(pid));
    sightings.push({ pid, jobs, open: unlessGone(() => openFilesOf(pid, isThorough)) });
    await slice.pause();
  }
  return sightings;
}

/** One look at a time, shared by all who asked before it began: fifty jobs may end at once. */
class SharedLook {
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<readonly Sighting[]> | null = null;

  constructor(private readonly isThorough: boolean) {}

  take(): Promise<readonly Sighting[]> {
    this.#next ??= this.#take();
    return this.#next;
  }

  async #take(): Promise<readonly Sighting[]> {
    await this.#current;
    await nextTurn();
    this.#next = null;
    const look = lookAtAll(this.isThorough);
    this.#current = look.catch(() => {});
    return look;
  }
}

const quick = new SharedLook(false);
const thorough = new SharedLook(true);

/**
 * The running processes that name a job in their environment or have its pipe open, and all others of their sessions: what
 * a job's command started in a session of its own, also with another environment and another output. Empty if the system
 * has no `/proc`.
 * @param isThorough whether to look for the pipe among all descriptors, and not only at stdout and stderr: it takes longer
 * @throws the system's error where a process could not be looked at
 */
export async function processesOfJob(jobId: string, pipe: string, isThorough: boolean): Promise<number[]> {
  if (!hasProc) return [];
  const sightings = await (isThorough ? thorough : quick).take();
  const isMarked = ({ jobs, open }: Sighting) =>
    jobs.includes(jobId) || open.some((file) => file.startsWith(pipe));
  const marked = new Set(sightings.filter(isMarked).map(({ pid }) => pid));
  if (marked.size === 0) return [];
  const sessions = new Set([...marked].map((pid) => readStatus(pid)?.session));
  sessions.delete(readStatus(process.pid)?.session);
  // The number of every session that began outside of this PID namespace.
  sessions.delete(0);
  return sightings.flatMap(({ pid }) => {
    const status = readStatus(pid);
    const isOfJob = status && !status.isZombie && (marked.has(pid) || sessions.has(status.session));
    return isOfJob ? [pid] : [];
  });
}
