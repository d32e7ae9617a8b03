import { expect, test } from 'vitest';
import { type Needs, unknownNeeds } from '../../../src/contract/index.js';
import type { DeviceRequest, Grant } from '../../../src/server/executors/executor.js';
import {
  type DeviceOrder,
  Scheduler,
  type SchedulerSettings,
  type Ticket,
} from '../../../src/server/executors/local/scheduler.js';
import { deviceOrder, randomNumbers } from './support.js';

const gib = 2 ** 30;
const gpuMargin = gib / 2;
const machine = { memory: 64 * gib, cpus: 16 };
const any: DeviceRequest = { kind: 'anyGpu' };
const cpu: DeviceRequest = { kind: 'cpu', workers: 1 };

/** A scheduler of GPUs of so many GiB; null for one that does not tell. */
function schedulerOf(sizes: readonly (number | null)[], settings: SchedulerSettings = { gpuMargin }) {
  const gpus = sizes.map((_, id) => ({ id, uuid: `GPU-${id}` }));
  const memoryOf = ({ id }: { id: number }) => (sizes[id] ?? 0) * gib || null;
  return new Scheduler(gpus, 4, { now: () => 0, memoryOf, machine, ...settings });
}

/** Needs in GiB and CPUs. */
const needing = ({ gpu, memory, cpus }: { gpu?: number; memory?: number; cpus?: number }): Needs => ({
  ...unknownNeeds,
  gpuMemory: gpu ? gpu * gib : null,
  memory: memory ? memory * gib : null,
  cpus: cpus || null,
});

/** Asks for devices as the job with this id. */
const ask = (
  scheduler: Scheduler,
  id: string,
  devices: DeviceRequest,
  needs: Parameters<typeof needing>[0] = {},
  more: Partial<DeviceOrder> = {},
) => scheduler.request(deviceOrder(devices, { id, needs: needing(needs), ...more }));

/** What each waits for; null once it has it. */
const waits = (...tickets: Ticket[]) =>
  tickets.map((ticket) => (ticket.position() === null ? null : ticket.waitingFor()));

test('Jobs share a GPU as long as their declared needs fit with a margin, and an exclusive job waits for the whole GPU', async () => {
  const scheduler = schedulerOf([24]);
  const [a, b, c] = ['a', 'b', 'c'].map((id) => ask(scheduler, id, any, { gpu: 7 })) as [
    Ticket,
    Ticket,
    Ticket,
  ];
  const undeclared = ask(scheduler, 'd', any);
  const named = ask(scheduler, 'e', { kind: 'gpus', ids: [0] }, { gpu: 1 });
  expect(waits(a, b, c, undeclared, named)).toEqual([
    ...[null, null, null],
    'a free GPU',
    '1.0 GiB of memory on GPU 0 (behind job d)',
  ]);
  for (const each of [a, b, c]) scheduler.release(await each.granted);
  expect(waits(undeclared, named)).toEqual([null, '1.0 GiB of memory on GPU 0']);
});

test('A large job is not starved: its GPU is kept free for it, and jobs behind it are told why they wait', async () => {
  const scheduler = schedulerOf([24, 24]);
  const [, second] = [16, 12].map((gpu) => ask(scheduler, 'x', any, { gpu }));
  const large = ask(scheduler, 'large', any, { gpu: 20 }, { owner: 'ana' });
  const small = ask(scheduler, 'small', any, { gpu: 5 }, { owner: 'bob' });
  const own = ask(scheduler, 'own', any, { gpu: 10 }, { owner: 'ana' });
  const others = ask(scheduler, 'other', any, { gpu: 10 }, { owner: 'bob' });
  const last = ask(scheduler, 'last', any, { gpu: 1 });
  // It keeps the second GPU, of which most is free, and a small one runs on the other.
  expect(waits(large, small, own, others, last)).toEqual([
    '20.0 GiB of GPU memory',
    null,
    '10.0 GiB of GPU memory (behind job large)',
    '10.0 GiB of GPU memory (behind a job of somebody else)',
    '1.0 GiB of GPU memory (behind 2 jobs)',
  ]);
  if (second) scheduler.release(await second.granted);
  expect(waits(large)).toEqual([null]);
});

test("The machine's memory and CPUs are reserved alike by GPU and CPU jobs, but only by those that declare them", () => {
  const scheduler = schedulerOf([24, 24], {});
  const tickets = [
    ask(scheduler, 'a', any, { memory: 40, cpus: 12 }),
    ask(scheduler, 'b', cpu, { memory: 25 }),
    ask(scheduler, 'c', any, { memory: 1 }),
    ask(scheduler, 'd', cpu, { cpus: 5 }),
    ask(scheduler, 'e', cpu),
  ];
  const expected = ['25.0 GiB of memory', '1.0 GiB of memory (behind job b)', '5 CPUs', null];
  expect(waits(...tickets)).toEqual([null, ...expected]);
});

test('Without sharing, a job that declares GPU memory and accepts any GPU gets one that is large enough', async () => {
  const scheduler = schedulerOf([8, 24], {});
  const [a, b] = [ask(scheduler, 'a', any, { gpu: 12 }), ask(scheduler, 'b', any, { gpu: 12 })];
  expect((await a.granted).gpus).toEqual([1]);
  expect(waits(b, ask(scheduler, 'c', any))).toEqual(['a free GPU with 12.0 GiB of memory', null]);
});

/** GiB of the simulated GPUs. */
const sizes = [8, 24, 48, null];
/** How long the longest job runs, and when the last one comes. */
const longest = 8;
const lastArrival = 15;

interface SimulatedJob extends DeviceOrder {
  readonly arrives: number;
  readonly lasts: number;
  /** When somebody kills it, whether it waits or runs. */
  readonly killedAt: number;
}

function randomJobs(random: () => number, owners: readonly string[]): SimulatedJob[] {
  const upTo = (most: number) => 1 + Math.floor(random() * most);
  const maybe = (most: number) => (random() < 0.5 ? upTo(most) : 0);
  return Array.from({ length: 20 }, (_, number) => {
    const dice = random();
    const id = Math.floor(random() * sizes.length);
    const devices: DeviceRequest =
      dice < 0.6
        ? any
        : dice < 0.7
          ? { kind: 'gpus', ids: [id] }
          : dice < 0.8
            ? { kind: 'gpus', ids: [id, (id + 1) % sizes.length] }
            : { kind: 'cpu', workers: upTo(3) };
    const most = devices.kind === 'gpus' ? Math.min(...devices.ids.map((each) => sizes[each] ?? 48)) : 48;
    const gpu = random() < 0.7 ? upTo(random() < 0.2 ? most : Math.min(most, 10)) : 0;
    const needs = needing({
      gpu,
      memory: maybe(random() < 0.2 ? 64 : 10),
      cpus: maybe(random() < 0.2 ? 16 : 4),
    });
    const arrives = Math.floor(random() * lastArrival);
    return {
      ...deviceOrder(devices, { id: String(number), needs, isAlone: random() < 0.05 }),
      owner: owners[Math.floor(random() * owners.length)] ?? null,
      arrives,
      lasts: upTo(longest),
      killedAt: random() < 0.15 ? arrives + upTo(20) : Infinity,
    };
  }).sort((a, b) => a.arrives - b.arrives);
}

/** Bytes that are booked twice, or beyond what there is, by the jobs that run. */
function excessOf(running: ReadonlyMap<SimulatedJob, Grant>): string[] {
  const jobs = [...running.keys()];
  const sum = (of: (needs: Needs) => number | null) =>
    jobs.reduce((all, { needs }) => all + (of(needs) ?? 0), 0);
  const problems = sizes.flatMap((size, id) => {
    const here = jobs.filter((job) => running.get(job)?.gpus.includes(id));
    const isFull =
      here.reduce((all, { needs }) => all + (needs.gpuMemory ?? 0) + gpuMargin, 0) > (size ?? 0) * gib;
    const isShared = here.length > 1;
    const mustBeAlone =
      size === null || here.some(({ needs, isAlone }) => isAlone || needs.gpuMemory === null);
    return isShared && (isFull || mustBeAlone) ? [`GPU ${id}`] : [];
  });
  if (sum(({ memory }) => memory) > machine.memory) problems.push('memory');
  if (sum(({ cpus }) => cpus) > machine.cpus) problems.push('CPUs');
  return problems;
}

/** Resolves when the jobs that were granted devices know it, also those for which a restarted server waits a moment. */
async function granted(): Promise<void> {
  for (let turns = 3; turns > 0; turns -= 1) await Promise.resolve();
}

/** Runs jobs to their ends. Returns each start, with its moment and devices, how often a GPU had several jobs, and for how many
 * moments it was the turn of one job. */
async function simulate(jobs: readonly SimulatedJob[], isRestarted: (moment: number) => boolean) {
  let scheduler = schedulerOf(sizes);
  const waiting = new Map<SimulatedJob, Ticket>();
  const running = new Map<SimulatedJob, Grant>();
  const ends = new Map<SimulatedJob, number>();
  const starts: string[] = [];
  /** For how long it has been the turn of a job that waits. */
  let turn: { readonly job: SimulatedJob | undefined; readonly moments: number } = {
    job: undefined,
    moments: 0,
  };
  let longestTurn = 0;
  const excess: string[] = [];
  let shared = 0;
  let now = 0;
  const request = (job: SimulatedJob, isAccepted: boolean) => {
    const ticket = scheduler.request({ ...job, isAccepted });
    waiting.set(job, ticket);
    const start = (grant: Grant) => {
      // It belongs to a server that is gone.
      if (waiting.get(job) !== ticket) return;
      waiting.delete(job);
      running.set(job, grant);
      ends.set(job, now + job.lasts);
      starts.push(`${now}: ${job.id} on ${grant.gpus.join() || 'the CPU'}`);
    };
    ticket.granted.then(start, () => {});
  };
  for (; now <= lastArrival || waiting.size + running.size > 0; now += 1) {
    for (const [job, grant] of running) {
      if ((ends.get(job) ?? 0) > now && job.killedAt > now) continue;
      running.delete(job);
      scheduler.release(grant);
    }
    await granted();
    for (const [job, ticket] of [...waiting]) {
      if (job.killedAt > now || !waiting.has(job)) continue;
      waiting.delete(job);
      ticket.cancel();
      await granted();
    }
    if (isRestarted(now)) {
      scheduler = schedulerOf(sizes);
      for (const [job, grant] of running) scheduler.adopt(grant, job);
      for (const job of [...waiting.keys()]) request(job, true);
    }
    for (const job of jobs) if (job.arrives === now) request(job, false);
    await granted();
    excess.push(...excessOf(running));
    const held = [...running.values()].flatMap(({ gpus }) => gpus);
    shared += held.length - new Set(held).size;
    const next = [...waiting.keys()].find((job) => waiting.get(job)?.position() === 1);
    turn =
      next !== undefined && next === turn.job
        ? { job: next, moments: turn.moments + 1 }
        : { job: next, moments: 0 };
    longestTurn = Math.max(longestTurn, turn.moments);
  }
  expect(excess).toEqual([]);
  return { starts, shared, longestTurn };
}

test('In 1,000 random schedules nothing is granted twice, no job starves, and a restarted server decides as it would have before', async () => {
  let [shared, longestTurn] = [0, 0];
  for (let seed = 1; seed <= 1000; seed += 1) {
    const random = randomNumbers(seed);
    const owners = seed % 2 === 0 ? ['ana'] : ['ana', 'bob', 'cem'];
    const jobs = randomJobs(random, owners);
    const restarts = new Set(Array.from({ length: 5 }, () => Math.floor(random() * 30)));
    const usual = await simulate(jobs, () => false);
    const restarted = await simulate(jobs, (moment) => restarts.has(moment));
    expect(restarted.starts, `seed ${seed}`).toEqual(usual.starts);
    shared += usual.shared;
    // With several owners it may become somebody else's turn, as the clock stands still (`fair-share.test.ts`).
    if (owners.length === 1) longestTurn = Math.max(longestTurn, usual.longestTurn);
  }
  expect(shared).toBeGreaterThan(1000);
  // What it needs is kept for it: a device first, then memory and CPUs.
  expect(longestTurn).toBeLessThanOrEqual(2 * longest);
});
