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

/**
 * How closely processes are looked at. Each may name a job in its environment (`marks`); it may also have the job's pipe as
 * its stdout or stderr (`output`), or as any descriptor (`everything`), which takes longest.
 */
export type Look = 'marks' | 'output' | 'everything';

/**
 * Which processes are looked at. Whoever has started the job itself need not look at those that are older than its own process
 * (`younger`), as nearly all of a machine are.
 */
export type Age = 'any' | 'younger';

/** Most descriptors of a process that are looked at, the lowest first: one with more is not a shell. */
const mostDescriptors = 64;

const assignment = `${jobMarker}=`;

function jobsOf(pid: number): string[] {
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
  if (!environment.includes(assignment)) return [];
  const entries = environment.split('\0').filter((entry) => entry.startsWith(assignment));
  return entries.map((entry) => entry.slice(assignment.length));
}

/** What a link of a process leads to; undefined if it is gone, or the process is. */
function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch (cause) {
    if (isAnswer(cause)) return undefined;
    throw cause;
  }
}

/** The files that a process has open, also deleted ones and a shell's copy of its own output. */
function openFilesOf(pid: number, look: Look): string[] {
  if (look === 'marks') return [];
  const directory = `/proc/${pid}/fd`;
  const descriptors = look === 'everything' ? readdirSync(directory).slice(0, mostDescriptors) : ['1', '2'];
  return descriptors.flatMap((each) => targetOf(`${directory}/${each}`) ?? []);
}

/** Looks at a process. Whoever may not read its environment may not read which files it has open either: that is not tried. */
function lookAt(pid: number, look: Look): Sighting {
  let jobs: readonly string[] = [];
  let open: readonly string[] = [];
  try {
    jobs = jobsOf(pid);
    open = openFilesOf(pid, look);
  } catch (cause) {
    // It may be gone or another user's by now.
    if (!isAnswer(cause)) throw cause;
  }
  return { pid, jobs, open };
}

const startOf = (pid: number): number => readStatus(pid)?.startTime ?? 0;

/** Looks at every other process. Other work is done in between: a machine may have thousands. */
async function lookAtAll(look: Look, age: Age): Promise<readonly Sighting[]> {
  const slice = new TimeSlice();
  const sightings: Sighting[] = [];
  const ownStart = startOf(process.pid);
  for (const pid of processIds()) {
    if (pid === process.pid) continue;
    // Start times are compared in clock ticks, of which two processes may share one.
    if (age === 'any' || startOf(pid) >= ownStart) sightings.push(lookAt(pid, look));
    await slice.pause();
  }
  return sightings;
}

/** One look at a time, shared by all who asked before it began: fifty jobs may end at once. */
class SharedLook {
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<readonly Sighting[]> | null = null;

  constructor(
    private readonly look: Look,
    private readonly age: Age,
  ) {}

  take(): Promise<readonly Sighting[]> {
    this.#next ??= this.#take();
    return this.#next;
  }

  async #take(): Promise<readonly Sighting[]> {
    await this.#current;
    await nextTurn();
    this.#next = null;
    const look = lookAtAll(this.look, this.age);
    this.#current = look.catch(() => {});
    return look;
  }
}

const ofEachLook = (age: Age): Readonly<Record<Look, SharedLook>> => ({
  marks: new SharedLook('marks', age),
  output: new SharedLook('output', age),
  everything: new SharedLook('everything', age),
});

const looks: Readonly<Record<Age, Readonly<Record<Look, SharedLook>>>> = {
  any: ofEachLook('any'),
  younger: ofEachLook('younger'),
};

/**
 * The running processes that name a job in their environment or have its pipe open, and all others of their sessions: what
 * a job's command started in a session of its own, also with another environment and another output. Empty if the system
 * has no `/proc`.
 * @param look `marks` where no process can have the pipe open
 * @param age `younger` where this process has started the job
 * @throws the system's error where a process could not be looked at
 */
export async function processesOfJob(
  jobId: string,
  pipe: string,
  look: Look,
  age: Age = 'any',
): Promise<number[]> {
  if (!hasProc) return [];
  const sightings = await looks[age][look].take();
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
