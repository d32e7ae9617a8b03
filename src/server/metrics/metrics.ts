import type { StatsFs } from 'node:fs';
import { readdir, statfs } from 'node:fs/promises';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type JobState, jobStates, type OutOfUse, type UsageOfUploads } from '../../contract/index.js';
import type { ServerEvents } from '../events.js';

/** Bytes transferred over all connections since the start. */
interface Transferred {
  readonly received: number;
  readonly sent: number;
}

/** What the metrics need to know about a job. */
interface CountedJob {
  readonly state: JobState;
  /** Whether the job holds GPUs. */
  readonly hasDevices: boolean;
  readonly record: { readonly gpus: readonly number[] };
}

/** Where the values of the metrics come from. */
export interface MetricSources {
  readonly events: ServerEvents;
  readonly jobs: {
    /** All jobs on the server. */
    list(): readonly CountedJob[];
    readonly drainState: { readonly draining: boolean };
  };
  readonly executor: {
    /** Faults of the machine that keep jobs waiting. */
    faults?(): readonly string[];
    /** The devices that jobs can use. @throws while they are not known */
    devices(): Promise<readonly { readonly id: number; readonly out?: OutOfUse | null }[]>;
  };
  /** Null if jobs run on a cluster, where GPU ids mean nothing without their nodes. */
  readonly gpus: {
    /** Null while they are not known. */
    readonly current: readonly { readonly id: number }[] | null;
  } | null;
  /** Null if the server stores no uploads. */
  readonly uploads: { usage(): readonly UsageOfUploads[] } | null;
  readonly slots: { readonly open: number };
  readonly traffic: { readonly transferred: Transferred };
  readonly dataDirectory: string;
}

/** Upper bounds of the histogram buckets for times, in seconds: from a second to two days. */
const timeBuckets = [1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 172_800];

/** The same for memory, in bytes: from a gibibyte to a tebibyte. */
const memoryBuckets = Array.from({ length: 11 }, (_, power) => 2 ** (30 + power));

/** Counters of events. */
const counterIn =
  (registry: Registry) =>
  (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers: [registry] });

/**
 * Metrics that count events: jobs, their times, refusals. The apps are those of the allowlist, so there are few labels.
 */
function countJobs(events: ServerEvents, registry: Registry): void {
  const registers = [registry];
  const counter = counterIn(registry);
  const histogram = (name: string, help: string, ...labelNames: string[]) =>
    new Histogram({ name, help, labelNames, buckets: timeBuckets, registers });
  const peaks = (name: string, help: string) =>
    new Histogram({ name, help, labelNames: ['app'] as const, buckets: memoryBuckets, registers });
  const accepted = counter('remote_app_jobs_accepted_total', 'Jobs that were accepted', 'app', 'operation');
  const ended = counter(
    'remote_app_jobs_ended_total',
    'Jobs that have ended, by state: done, error or killed',
    ...['app', 'operation', 'state'],
  );
  const wait = histogram(
    'remote_app_queue_wait_seconds',
    'Time from acceptance to start of a job, by device: gpu or cpu',
    'device',
  );
  const run = histogram('remote_app_run_seconds', 'Run time of jobs', 'app', 'operation');
  const gpuTime = counter(
    'remote_app_gpu_seconds_total',
    'Time for which finished jobs held GPUs, summed over the GPUs',
    'app',
  );
  const cpuTime = counter('remote_app_cpu_seconds_total', 'CPU time of finished jobs', 'app');
  const gpuMemory = peaks('remote_app_gpu_memory_peak_bytes', 'Peak memory of a job on any one GPU');
  const memory = peaks('remote_app_memory_peak_bytes', 'Peak memory of a job');
  const overused = counter(
    'remote_app_overuse_total',
    'Jobs that used over 10 % more of a resource (gpu_memory or memory) than their app declares',
    ...['app', 'resource'],
  );
  const refused = counter(
    'remote_app_refusals_total',
    'Requests that were answered with an error',
    ...['status', 'error'],
  );
  events.on('accepted', ({ app, operation }) => accepted.inc({ app, operation }));
  events.on('started', ({ gpus, waited }) => {
    wait.observe({ device: gpus.length > 0 ? 'gpu' : 'cpu' }, waited);
  });
  events.on('ended', ({ app, operation, state, seconds, gpus, ...used }) => {
    ended.inc({ app, operation, state });
    for (const { resource } of used.overuse) overused.inc({ app, resource });
    if (used.peakGpuMemory !== null) gpuMemory.observe({ app }, used.peakGpuMemory);
    if (used.peakMemory !== null) memory.observe({ app }, used.peakMemory);
    if (used.cpuSeconds !== null) cpuTime.inc({ app }, used.cpuSeconds);
    if (seconds === null) return;
    run.observe({ app, operation }, seconds);
    if (gpus.length > 0) gpuTime.inc({ app }, seconds * gpus.length);
  });
  events.on('refused', ({ status, error }) => refused.inc({ status: String(status), error }));
}

/** Metrics of uploads: how many were completed, and how many are stored. */
function countUploads({ events, uploads }: MetricSources, registry: Registry): void {
  const counter = counterIn(registry);
  const whole = counter('remote_app_uploads_total', 'Completed uploads');
  const bytes = counter('remote_app_upload_bytes_total', 'Bytes of completed uploads');
  events.on('uploaded', ({ bytes: length }) => {
    whole.inc();
    bytes.inc(length);
  });
  const { gauge } = readValues(registry);
  const sum = (of: (each: UsageOfUploads) => number) => () =>
    uploads?.usage().reduce((total, each) => total + of(each), 0);
  gauge(
    'remote_app_kept_uploads',
    'Uploads that the server keeps, complete or not',
    sum((each) => each.uploads),
  );
  gauge(
    'remote_app_kept_upload_bytes',
    'Bytes of these uploads; an incomplete one counts with its full size',
    sum((each) => each.bytes_kept),
  );
}

/** Values of a label, with the value of the metric for each. */
type Labelled = readonly (readonly [string | number, number])[];

/** Metrics whose values are read on each request. */
const readValues = (registry: Registry) => ({
  /** A gauge without a value is left out. */
  gauge: (name: string, help: string, read: () => number | undefined | Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const value = await read();
        if (value === undefined) this.remove();
        else this.set(value);
      },
    }),
  gaugeBy: (name: string, help: string, label: string, read: () => Labelled | Promise<Labelled>) =>
    new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      async collect() {
        const values = await read();
        this.reset();
        for (const [of, value] of values) this.set({ [label]: String(of) }, value);
      },
    }),
  counter: (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    }),
});

/** Metrics of the current state, which is determined at each request. */
function showServer(sources: MetricSources, registry: Registry): void {
  const disk = (of: (found: StatsFs) => number) => () =>
    statfs(sources.dataDirectory).then(of, () => undefined);
  const { gauge, gaugeBy, counter } = readValues(registry);
  gaugeBy('remote_app_jobs', 'Jobs that the server keeps, by state', 'state', () => {
    const states = sources.jobs.list().map(({ state }) => state);
    return jobStates.map((state) => [state, states.filter((each) => each === state).length]);
  });
  gaugeBy('remote_app_gpu_busy', 'Whether a job has this GPU: 1 or 0', 'gpu', () => {
    const { gpus, jobs } = sources;
    if (gpus === null) return [];
    const holders = jobs.list().filter(({ hasDevices }) => hasDevices);
    const busy = new Set(holders.flatMap(({ record }) => record.gpus));
    const known = gpus.current?.map(({ id }) => id) ?? [];
    return [...new Set([...known, ...busy])].map((id) => [id, busy.has(id) ? 1 : 0]);
  });
  const outOfUse = (name: string, help: string, why: OutOfUse) =>
    gaugeBy(name, help, 'gpu', async () => {
      const all = sources.gpus === null ? [] : await sources.executor.devices().catch(() => []);
      return all.map(({ id, out }) => [id, out === why ? 1 : 0]);
    });
  outOfUse('remote_app_gpu_drained', 'Whether an admin has drained this GPU: 1 or 0', 'drained');
  outOfUse('remote_app_gpu_faulty', 'Whether this GPU is faulty: 1 or 0', 'faulty');
  gauge('remote_app_draining', 'Whether the server is draining: 1 or 0', () =>
    sources.jobs.drainState.draining ? 1 : 0,
  );
  gauge(
    'remote_app_faults',
    'Faults of the machine that keep jobs waiting, such as a lost GPU',
    () => sources.executor.faults?.().length ?? 0,
  );
  gauge('remote_app_log_streams', 'Open log streams', () => sources.slots.open);
  counter(
    'remote_app_received_bytes_total',
    'Bytes received by all connections',
    () => sources.traffic.transferred.received,
  );
  counter(
    'remote_app_sent_bytes_total',
    'Bytes sent by all connections',
    () => sources.traffic.transferred.sent,
  );
  gauge(
    'remote_app_disk_free_bytes',
    "Free bytes on the data directory's file system",
    disk(({ bavail, bsize }) => bavail * bsize),
  );
  gauge(
    'remote_app_disk_size_bytes',
    "Size of the data directory's file system",
    disk(({ blocks, bsize }) => blocks * bsize),
  );
  showProcess(registry);
}

/**
 * The usual metrics of a process, under the names that Prometheus' libraries give them. prom-client's own collection is not
 * used, because it measures the delay of the event loop a hundred times a second.
 */
function showProcess(registry: Registry): void {
  const { gauge, counter } = readValues(registry);
  const start = Date.now() / 1000 - process.uptime();
  gauge('process_start_time_seconds', 'Start time of the server, in seconds since 1970', () => start);
  gauge('process_resident_memory_bytes', 'Memory of the server, without its jobs', () =>
    process.memoryUsage.rss(),
  );
  counter('process_cpu_seconds_total', 'CPU time of the server, without its jobs', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  gauge(
    'process_open_fds',
    'Open file descriptors of the server',
    async () => (await readdir('/proc/self/fd')).length,
  );
}

/** The metrics of one server in Prometheus' text format. Counting starts with the instance. */
export class Metrics {
  readonly #registry = new Registry();

  constructor(sources: MetricSources) {
    countJobs(sources.events, this.#registry);
    countUploads(sources, this.#registry);
    showServer(sources, this.#registry);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
