import { readdir } from 'node:fs/promises';
import { Counter, Gauge, type Registry } from 'prom-client';
import { jobStates } from '../../contract/job.js';
import { DiskLook } from './disk-use.js';
import type { MetricSources } from './sources.js';

/** Metrics of one value, which is read whenever somebody asks. A gauge without a value is left out. */
const oneValue = (registers: Registry[]) => ({
  gauge: (name: string, help: string, read: () => number | undefined | Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const value = await read();
        if (value === undefined) this.remove();
        else this.set(value);
      },
    }),
  counter: (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    }),
});

/** Metrics that are looked up when they are asked for: what there is now. */
export function showServer(sources: MetricSources, registry: Registry): void {
  const registers = [registry];
  const disk = new DiskLook(sources.dataDirectory);
  new Gauge({
    name: 'remote_app_jobs',
    help: 'Jobs that the server keeps, by state',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const states = sources.jobs().map(({ state }) => state);
      for (const state of jobStates) this.set({ state }, states.filter((each) => each === state).length);
    },
  });
  new Gauge({
    name: 'remote_app_gpu_busy',
    help: 'Whether a job has this GPU: 1 or 0',
    labelNames: ['gpu'] as const,
    registers,
    collect() {
      this.reset();
      const busy = new Set(sources.jobs().flatMap(({ gpus }) => gpus));
      for (const id of new Set([...(sources.gpus() ?? []), ...busy])) {
        this.set({ gpu: String(id) }, busy.has(id) ? 1 : 0);
      }
    },
  });
  const { gauge, counter } = oneValue(registers);
  gauge(
    'remote_app_draining',
    'Whether new jobs are refused because an admin has asked for it: 1 or 0',
    () => (sources.isDraining() ? 1 : 0),
  );
  gauge('remote_app_log_streams', 'Log streams that are open', () => sources.openStreams());
  counter(
    'remote_app_received_bytes_total',
    'Bytes received by all connections',
    () => sources.transferred().received,
  );
  counter('remote_app_sent_bytes_total', 'Bytes sent by all connections', () => sources.transferred().sent);
  gauge(
    'remote_app_disk_free_bytes',
    'Free bytes of the file system that has the data directory',
    async () => (await disk.ask())?.free,
  );
  gauge(
    'remote_app_disk_size_bytes',
    'Size of the file system that has the data directory',
    async () => (await disk.ask())?.size,
  );
  showProcess(registry);
}

/**
 * What Prometheus' own libraries show of a process, under the same names. The library's collection of these is not used: it
 * measures the delay of the event loop a hundred times a second.
 */
function showProcess(registry: Registry): void {
  const { gauge, counter } = oneValue([registry]);
  const start = Date.now() / 1000 - process.uptime();
  gauge('process_start_time_seconds', 'Start of the server, in seconds since 1970', () => start);
  gauge('process_resident_memory_bytes', 'Memory of the server, without that of jobs', () =>
    process.memoryUsage.rss(),
  );
  counter('process_cpu_seconds_total', 'Processor time of the server, without that of jobs', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  gauge(
    'process_open_fds',
    'Descriptors that the server has open',
    async () => (await readdir('/proc/self/fd')).length,
  );
}
