import { rmdirSync, statfsSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { ServerEvents } from '../../../src/server/events.js';
import { Metrics } from '../../../src/server/metrics/metrics.js';
import { temporary } from '../../support/temporary.js';

const directory = await temporary();
afterAll(() => directory[Symbol.asyncDispose]());

const facts = { id: '0123456789ab', app: 'tissue', operation: 'infer', owner: null };

/** What a metric has to do with a job. */
const job = (state: 'running' | 'done', hasDevices: boolean, ...gpus: number[]) => ({
  state,
  hasDevices,
  record: { gpus },
});

/** A server whose values a test changes, and its metrics. */
function measured() {
  const events = new ServerEvents(expect.fail);
  const sources = {
    events,
    jobs: {
      list: () => [job('running', true, 1, 4), job('running', false, 2)],
      drainState: { draining: true },
    },
    gpus: { current: [{ id: 0 }, { id: 1 }, { id: 2 }] } as { current: { id: number }[] } | null,
    uploads: {
      usage: () => [
        { owner: null, uploads: 2, bytes_kept: 30 },
        { owner: 'ana', uploads: 1, bytes_kept: 4 },
      ],
    },
    slots: { open: 3 },
    traffic: { transferred: { received: 70, sent: 900 } },
    dataDirectory: directory.path,
  };
  const metrics = new Metrics(sources);
  /** The values, without those of buckets and of the process. */
  const values = async () => {
    const lines = (await metrics.text()).split('\n').filter((line) => /^remote_app_(?!.*_bucket)/.test(line));
    return Object.fromEntries(
      lines.map((line) => {
        const at = line.lastIndexOf(' ');
        return [line.slice('remote_app_'.length, at), Number(line.slice(at))];
      }),
    );
  };
  return { events, sources, values, metrics };
}

const ended = {
  ...facts,
  error: null,
  isRefused: false,
  exitCode: 0,
  version: null,
  gpuUuids: [],
  cpuSlots: 0,
  acceptedAt: '',
  queued: 0,
  received: 0,
  endedAt: '',
  bytes: 0,
} as const;

test('all of what a server counts and shows has its value', async () => {
  const { events, sources, values } = measured();
  const { blocks, bsize } = statfsSync(directory.path);
  const size = blocks * bsize;
  events.tell('accepted', { ...facts, bytes: 5 });
  events.tell('started', { ...facts, gpus: [1, 4], waited: 2 });
  events.tell('started', { ...facts, gpus: [], waited: 40 });
  events.tell('ended', { ...ended, state: 'done', gpus: [1, 4], seconds: 10 });
  events.tell('ended', { ...ended, state: 'error', gpus: [], seconds: 3 });
  events.tell('ended', { ...ended, state: 'killed', gpus: [2], seconds: null });
  events.tell('uploaded', { owner: 'ana', bytes: 600 });
  const refused = { method: 'GET', path: '/x', detail: '', from: '', owner: null, role: null, route: null };
  for (const error of ['notFound', 'unknownJob', 'notFound'] as const)
    events.tell('refused', { ...refused, status: 404, error });
  const told = await values();
  expect(told).toEqual({
    'jobs_accepted_total{app="tissue",operation="infer"}': 1,
    'jobs_ended_total{app="tissue",operation="infer",state="done"}': 1,
    'jobs_ended_total{app="tissue",operation="infer",state="error"}': 1,
    'jobs_ended_total{app="tissue",operation="infer",state="killed"}': 1,
    'queue_wait_seconds_sum{device="gpu"}': 2,
    'queue_wait_seconds_count{device="gpu"}': 1,
    'queue_wait_seconds_sum{device="cpu"}': 40,
    'queue_wait_seconds_count{device="cpu"}': 1,
    'run_seconds_sum{app="tissue",operation="infer"}': 13,
    'run_seconds_count{app="tissue",operation="infer"}': 2,
    'gpu_seconds_total{app="tissue"}': 20,
    'refusals_total{status="404",error="notFound"}': 2,
    'refusals_total{status="404",error="unknownJob"}': 1,
    uploads_total: 1,
    upload_bytes_total: 600,
    kept_uploads: 3,
    kept_upload_bytes: 34,
    'jobs{state="queued"}': 0,
    'jobs{state="waiting"}': 0,
    'jobs{state="running"}': 2,
    'jobs{state="done"}': 0,
    'jobs{state="error"}': 0,
    'jobs{state="killed"}': 0,
    // A job whose command has ended holds its GPU no longer; one that is missing at the moment is held.
    'gpu_busy{gpu="0"}': 0,
    'gpu_busy{gpu="1"}': 1,
    'gpu_busy{gpu="2"}': 0,
    'gpu_busy{gpu="4"}': 1,
    draining: 1,
    log_streams: 3,
    received_bytes_total: 70,
    sent_bytes_total: 900,
    disk_free_bytes: expect.any(Number),
    disk_size_bytes: size,
  });
  expect(told.disk_free_bytes).toBeLessThan(size);

  // What is read on each request is that of now, and not added to that of before.
  sources.jobs.list = () => [job('done', false, 1)];
  sources.gpus = { current: [{ id: 0 }] };
  sources.traffic.transferred.received = 71;
  const gone = await values();
  expect(gone).toMatchObject({ 'jobs{state="done"}': 1, 'gpu_busy{gpu="0"}': 0, received_bytes_total: 71 });
  expect(Object.keys(gone).filter((name) => name.startsWith('gpu_busy'))).toHaveLength(1);
  sources.gpus = null;
  expect(Object.keys(await values()).filter((name) => name.startsWith('gpu_busy'))).toEqual([]);
});

test('what nobody can tell is left out', async () => {
  const { sources } = measured();
  const lost = new Metrics({ ...sources, uploads: null, dataDirectory: `${directory.path}/gone` });
  expect(await lost.text()).not.toMatch(/^remote_app_(kept_|disk_)/m);
  await using disk = await temporary();
  const metrics = new Metrics({ ...sources, dataDirectory: disk.path });
  expect(await metrics.text()).toMatch(/^remote_app_disk_free_bytes \d/m);
  rmdirSync(disk.path);
  expect(await metrics.text()).not.toMatch(/^remote_app_disk_/m);
});

test('the process has its start, its time and its memory', async () => {
  const { metrics } = measured();
  const { user, system } = process.cpuUsage();
  const text = await metrics.text();
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  expect(value('process_start_time_seconds')).toBeCloseTo(Date.now() / 1000 - process.uptime(), 0);
  expect(value('process_cpu_seconds_total')).toBeGreaterThanOrEqual((user + system) / 1e6);
  expect(value('process_resident_memory_bytes')).toBeGreaterThan(1 << 24);
  expect(value('process_open_fds')).toBeGreaterThan(3);
});
