import { readdir } from 'node:fs/promises';
import { Counter, Gauge, type Registry } from 'prom-client';
import { jobStates } from '../../contract/job.js';
import { DiskLook } from './disk-use.js';
import type { MetricSources } from './sources.js';

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
      const busy = new Set(sources.jobs().flatMap(({ state, gpus }) => (state === 'running' ? gpus : [])));
      for (const id of new Set([...(sources.gpus() ?? []), ...busy])) {
        this.set({ gpu: String(id) }, busy.has(id) ? 1 : 0);
      }
    },
  });
  new Gauge({
    name: 'remote_app_draining',
    help: 'Whether new jobs are refused because an admin has asked for it: 1 or 0',
    registers,
    collect() {
      this.set(sources.isDraining() ? 1 : 0);
    },
  });
  new Gauge({
    name: 'remote_app_log_streams',
    help: 'Log streams that are open',
    registers,
    collect() {
      this.set(sources.openStreams());
    },
  });
  const bytes = (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  bytes(
    'remote_app_received_bytes_total',
    'Bytes received by all connections',
    () => sources.transferred().received,
  );
  bytes('remote_app_sent_bytes_total', 'Bytes sent by all connections', () => sources.transferred().sent);
  new Gauge({
    name: 'remote_app_disk_free_bytes',
    help: 'Free bytes of the file system that has the data directory',
    registers,
    async collect() {
      const use = await disk.ask();
      if (use) this.set(use.free);
      else this.remove();
    },
  });
  new Gauge({
    name: 'remote_app_disk_size_bytes',
    help: 'Size of the file system that has the data directory',
    registers,
    async collect() {
      const use = await disk.ask();
      if (use) this.set(use.size);
      else this.remove();
    },
  });
  showProcess(registry);
}

/**
 * What Prometheus' own libraries show of a process, under the same names. The library's collection of these is not used: it
 * measures the delay of the event loop a hundred times a second.
 */
function showProcess(registry: Registry): void {
  const registers = [registry];
  const start = Date.now() / 1000 - process.uptime();
  new Gauge({
    name: 'process_start_time_seconds',
    help: 'Start of the server, in seconds since 1970',
    registers,
  }).set(start);
  new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Memory of the server, without that of jobs',
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'Processor time of the server, without that of jobs',
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new Gauge({
    name: 'process_open_fds',
    help: 'Descriptors that the server has open',
    registers,
    async collect() {
      this.set((await readdir('/proc/self/fd')).length);
    },
  });
}
