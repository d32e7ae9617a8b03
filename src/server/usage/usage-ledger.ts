import { closeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { type Observed, operationNames, type UsageRow } from '../../contract/index.js';
import { appendLine, errorCode, openLines, orElse } from '../../files/index.js';
import { readOrSetAside } from '../data-directory/index.js';
import type { EndedJob, ServerEvents } from '../events.js';
import type { Report } from '../report.js';

const figure = z.number().min(0);
/** Null if it is not known. */
const measure = figure.nullable().default(null);

/** A job that has ended, as one line of the file. */
const usedByJob = z.object({
  /** When the job's command ended. */
  time: z.iso.datetime(),
  job_id: z.string(),
  owner: z.string().nullable(),
  app: z.string(),
  /** Seconds on a GPU, times the number of GPUs. */
  gpu_seconds: figure,
  /** Missing in the lines of older servers. */
  operation: z.string().default(''),
  state: z.string().default(''),
  cpu_seconds: measure,
  peak_gpu_memory: measure,
  peak_memory: measure,
  bytes_in: figure,
  bytes_out: figure,
});
type UsedByJob = z.infer<typeof usedByJob>;

const useOf = ({ id, owner, app, operation, state, ...job }: EndedJob): UsedByJob => ({
  time: job.endedAt,
  job_id: id,
  ...{ owner, app, operation, state },
  gpu_seconds: job.gpus.length * (job.seconds ?? 0),
  cpu_seconds: job.cpuSeconds,
  peak_gpu_memory: job.peakGpuMemory,
  peak_memory: job.peakMemory,
  bytes_in: job.received,
  bytes_out: job.bytes ?? 0,
});

/** Maximum number of an app's latest jobs on which its observed use is based. */
const maxObserved = 1000;

/** A job that still exists, and what it keeps on disk. */
export interface KeptJob {
  readonly owner: string | null;
  readonly app: string;
  /** When the job's command ended (ISO 8601); null until then. */
  readonly endedAt: string | null;
  readonly bytes: number;
}

const keyOf = ({ owner, app }: { owner: string | null; app: string }) => JSON.stringify([owner, app]);

const nothing = { jobs: 0, gpu_hours: 0, cpu_hours: 0, bytes_in: 0, bytes_out: 0 } as const;

const sumOf = (a: UsageRow, b: UsageRow): UsageRow => ({
  ...a,
  jobs: a.jobs + b.jobs,
  gpu_hours: a.gpu_hours + b.gpu_hours,
  cpu_hours: a.cpu_hours + b.cpu_hours,
  bytes_in: a.bytes_in + b.bytes_in,
  bytes_out: a.bytes_out + b.bytes_out,
  bytes_kept: a.bytes_kept + b.bytes_kept,
  last_used: a.last_used > b.last_used ? a.last_used : b.last_used,
});

function parseLine(line: string): UsedByJob | null {
  // A crash may have cut it off.
  return orElse(() => usedByJob.safeParse(JSON.parse(line)).data ?? null, null);
}

/**
 * What jobs have used, in the file `usage` of the data directory: a line for each job that has ended. The lines remain after the
 * jobs are removed.
 */
export class UsageLedger {
  readonly #file: string;
  /** Readers take turns, because many requests must not read a long file at once. */
  #reading: Promise<unknown> = Promise.resolve();
  /** The latest jobs with a result, by app. */
  readonly #observed = new Map<string, UsedByJob[]>();

  /** Anything that is not a readable file is moved aside, so that the server can still start. */
  constructor(
    dataDirectory: string,
    private readonly report: Report,
  ) {
    this.#file = path.join(dataDirectory, 'usage');
    readOrSetAside(dataDirectory, this.#file, report, () => closeSync(openLines(this.#file, false)));
  }

  /** Adds a line for each job that ends from now on. */
  follow(events: ServerEvents): void {
    events.on('ended', (job) => {
      const used = useOf(job);
      this.#add(used);
      this.observe(used);
    });
  }

  /** Counts a job for what is observed of its app, if it has a result. */
  observe(used: UsedByJob): void {
    if (used.state !== 'done') return;
    const latest = this.#observed.get(used.app) ?? [];
    latest.push(used);
    if (latest.length > maxObserved) latest.shift();
    this.#observed.set(used.app, latest);
  }

  /** What the latest jobs of an app used. */
  observed(app: string): Observed[] {
    const latest = this.#observed.get(app) ?? [];
    const peaksOf = (operation: Observed['operation'], resource: Observed['resource']) => {
      const own = latest.filter((each) => each.operation === operation);
      const peaks = own.flatMap((each) => each[`peak_${resource}`] ?? []).sort((a, b) => a - b);
      const [median, maximum] = [peaks[Math.floor(peaks.length / 2)], peaks.at(-1)];
      const isKnown = median !== undefined && maximum !== undefined;
      return isKnown ? [{ operation, resource, jobs: peaks.length, median, maximum }] : [];
    };
    return operationNames.flatMap((each) => [...peaksOf(each, 'gpu_memory'), ...peaksOf(each, 'memory')]);
  }

  /**
   * What jobs that have ended since then used, by owner and app, with the highest GPU use first.
   * @param kept the jobs that still exist; those that ended before then are ignored
   */
  async summary(
    since: number,
    isWanted: (owner: string | null) => boolean,
    kept: readonly KeptJob[],
  ): Promise<UsageRow[]> {
    const rows = new Map<string, UsageRow>();
    const add = (used: UsageRow) => {
      if (!isWanted(used.owner)) return;
      const key = keyOf(used);
      const row = rows.get(key);
      rows.set(key, row ? sumOf(row, used) : used);
    };
    await this.each(since, ({ time, owner, app, gpu_seconds, cpu_seconds, bytes_in, bytes_out }) => {
      const hours = { gpu_hours: gpu_seconds / 3600, cpu_hours: (cpu_seconds ?? 0) / 3600 };
      add({ owner, app, jobs: 1, ...hours, bytes_in, bytes_out, bytes_kept: 0, last_used: time });
    });
    const now = new Date().toISOString();
    for (const { owner, app, endedAt, bytes } of kept) {
      if (Date.parse(endedAt ?? now) < since) continue;
      // The file has the end time of such a job.
      const isNoted = endedAt !== null && rows.has(keyOf({ owner, app }));
      const last_used = isNoted ? '' : (endedAt ?? now);
      add({ ...nothing, owner, app, bytes_kept: bytes, last_used });
    }
    return [...rows.values()].sort((a, b) => b.gpu_hours - a.gpu_hours || b.jobs - a.jobs);
  }

  /** Each job that ended since then (milliseconds of the wall clock). Invalid lines are skipped. */
  each(since: number, take: (used: UsedByJob) => void): Promise<void> {
    const read = this.#reading.then(() => this.#each(since, take));
    this.#reading = read.catch(() => {});
    return read;
  }

  async #each(since: number, take: (used: UsedByJob) => void): Promise<void> {
    try {
      await using file = await open(this.#file);
      for await (const line of file.readLines()) {
        const used = parseLine(line);
        if (used && Date.parse(used.time) >= since) take(used);
      }
    } catch (cause) {
      if (errorCode(cause) !== 'ENOENT') throw cause;
    }
  }

  #add(used: UsedByJob): void {
    try {
      appendLine(this.#file, JSON.stringify(used));
    } catch (cause) {
      this.report(`What job ${used.job_id} used could not be noted`, cause);
    }
  }
}
