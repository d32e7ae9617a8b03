import { describe, expect, test } from 'vitest';
import type { DeviceRequest, Grant } from '../../../src/server/executors/executor.js';
import { halfLife, Shares } from '../../../src/server/executors/local/fair-share.js';
import { Scheduler } from '../../../src/server/executors/local/scheduler.js';
import { deviceOrder, randomNumbers } from './support.js';

const minute = 60_000;
const hour = 60 * minute;

interface SimulatedJob {
  readonly number: number;
  readonly owner: string;
  readonly request: DeviceRequest;
  readonly arrives: number;
  readonly lasts: number;
  starts?: number;
  grant?: Grant;
}

/** A machine whose clock goes on from one event to the next. */
class Machine {
  time = 0;
  readonly started: SimulatedJob[] = [];
  readonly #running = new Set<SimulatedJob>();
  readonly scheduler: Scheduler;

  constructor(gpus: number, maxGpus: (owner: string | null) => number | null = () => null) {
    const known = Array.from({ length: gpus }, (_, id) => ({ id, uuid: `GPU-${id}` }));
    this.scheduler = new Scheduler(known, 4, { now: () => this.time, maxGpus });
  }

  /** Runs these jobs to their ends. */
  async run(jobs: readonly SimulatedJob[], onStart: (job: SimulatedJob) => void = () => {}): Promise<void> {
    const arriving = [...jobs].sort((a, b) => a.arrives - b.arrives || a.number - b.number);
    while (arriving.length > 0 || this.#running.size > 0) {
      const ending = [...this.#running].sort((a, b) => this.#endOf(a) - this.#endOf(b))[0];
      const coming = arriving[0];
      if (coming && (!ending || coming.arrives <= this.#endOf(ending))) {
        arriving.shift();
        this.time = coming.arrives;
        this.scheduler.request(deviceOrder(coming.request, { owner: coming.owner })).granted.then((grant) => {
          coming.grant = grant;
          coming.starts = this.time;
          this.#running.add(coming);
          this.started.push(coming);
          onStart(coming);
        });
      } else if (ending) {
        this.time = this.#endOf(ending);
        this.#running.delete(ending);
        this.scheduler.release(ending.grant as Grant);
      }
      // The grants of this moment.
      await Promise.resolve();
      await Promise.resolve();
    }
  }

  get running(): readonly SimulatedJob[] {
    return [...this.#running];
  }

  #endOf({ starts = 0, lasts }: SimulatedJob): number {
    return starts + lasts;
  }
}

const gpuHours = (jobs: readonly SimulatedJob[], owner: string): number =>
  jobs
    .filter((job) => job.owner === owner)
    .reduce((sum, { lasts, grant }) => sum + (lasts * (grant?.gpus.length ?? 0)) / hour, 0);

describe('10,000 jobs of six owners on four GPUs', { timeout: 60_000 }, () => {
  const random = randomNumbers(20_261_121);
  const owners = ['ana', 'bob', 'cem', 'dan', 'eva', 'fil'];
  const request = (): DeviceRequest => {
    const first = Math.floor(random() * 4);
    const dice = random();
    if (dice < 0.7) return { kind: 'anyGpu' };
    if (dice < 0.85) return { kind: 'gpus', ids: [first] };
    if (dice < 0.97) return { kind: 'gpus', ids: [first, (first + 1) % 4] };
    return { kind: 'gpus', ids: [0, 1, 2, 3] };
  };
  let clock = 0;
  const jobs: SimulatedJob[] = Array.from({ length: 10_000 }, (_, number) => {
    clock += random() * 2 * minute;
    // Ana sends half of all.
    const owner = random() < 0.5 ? 'ana' : (owners[1 + Math.floor(random() * 5)] ?? '');
    return { number, owner, request: request(), arrives: clock, lasts: (0.2 + random() * 5) * minute };
  });

  test('All jobs run once, with the devices that they asked for, and no two share a GPU', async () => {
    const machine = new Machine(4);
    let waits = 0;
    await machine.run(jobs, (job) => {
      const gpus = job.grant?.gpus ?? [];
      if (job.request.kind === 'gpus') expect(gpus).toEqual(job.request.ids);
      else expect(gpus).toHaveLength(1);
      const held = machine.running.flatMap(({ grant }) => grant?.gpus ?? []);
      expect(new Set(held).size).toBe(held.length);
      if ((job.starts ?? 0) > job.arrives) waits += 1;
    });
    expect(machine.started).toHaveLength(10_000);
    expect(new Set(machine.started).size).toBe(10_000);
    // The machine was busy: otherwise the order would have decided nothing.
    expect(waits).toBeGreaterThan(3000);

    // Inside one owner, jobs that ask for the same start in the order in which they came.
    const last = new Map<string, number>();
    for (const { owner, request: asked, number } of machine.started) {
      const key = `${owner} ${JSON.stringify(asked)}`;
      expect(number).toBeGreaterThan(last.get(key) ?? -1);
      last.set(key, number);
    }
    // Nobody starves: not even those that want all four.
    const longest = Math.max(...machine.started.map(({ starts = 0, arrives }) => starts - arrives));
    const wide = machine.started.filter(({ grant }) => grant?.gpus.length === 4);
    expect(wide.length).toBeGreaterThan(100);
    expect(longest).toBeLessThan(24 * hour);
  });
});

describe('owners who wait', () => {
  const any: DeviceRequest = { kind: 'anyGpu' };
  const many = (owner: string, count: number, lasts: number, from = 0): SimulatedJob[] =>
    Array.from({ length: count }, (_, index) => ({
      number: from + index,
      owner,
      request: any,
      arrives: 0,
      lasts,
    }));

  test('Owners who wait share the GPUs evenly, however many jobs each has sent', async () => {
    const machine = new Machine(2);
    const jobs = [
      ...many('ana', 500, 3 * minute),
      ...many('bob', 100, 3 * minute, 1000),
      ...many('cem', 50, 6 * minute, 2000),
    ];
    const lastOf = (owner: string) => machine.started.findLastIndex((job) => job.owner === owner);
    await machine.run(jobs);
    // While all three waited each had a third of the time.
    const shared = machine.started.slice(0, Math.min(...['ana', 'bob', 'cem'].map(lastOf)));
    const hours = ['ana', 'bob', 'cem'].map((owner) => gpuHours(shared, owner));
    for (const each of hours) expect(each / (hours[0] ?? 1)).toBeCloseTo(1, 1);
    // The one who sent few did not wait for the one who sent many.
    expect(lastOf('bob')).toBeLessThan(325);
  });

  test('Owners who wait take turns when several GPUs become free at the same time', async () => {
    const machine = new Machine(4);
    await machine.run([...many('cem', 4, hour), ...many('ana', 8, hour, 10), ...many('bob', 8, hour, 20)]);
    expect(machine.started.slice(4, 8).map(({ owner }) => owner)).toEqual(['ana', 'bob', 'ana', 'bob']);
    expect(gpuHours(machine.started.slice(4, 12), 'bob')).toBe(4);
  });

  test('Jobs of a single owner run in the order of arrival', async () => {
    const machine = new Machine(1);
    await machine.run(many('ana', 100, minute));
    expect(machine.started.map(({ number }) => number)).toEqual(
      Array.from({ length: 100 }, (_, index) => index),
    );
  });

  test('Owners who wait are not starved by ever new ones who have used nothing', async () => {
    const machine = new Machine(2);
    const newcomers = Array.from({ length: 1000 }, (_, number) => ({
      number,
      owner: `new-${number}`,
      request: any,
      arrives: number * 3 * minute,
      lasts: 6.6 * minute,
    }));
    const used = { number: 9000, owner: 'ana', request: any, arrives: 0, lasts: 10 * hour };
    const wide = {
      number: 9001,
      owner: 'ana',
      request: { kind: 'gpus', ids: [0, 1] } as const,
      arrives: 10.5 * hour,
      lasts: minute,
    };
    await machine.run([used, ...newcomers, wide]);
    const starts = machine.started.find(({ number }) => number === 9001)?.starts ?? Number.POSITIVE_INFINITY;
    expect(starts - wide.arrives).toBeLessThan(11 * hour);
    const after = machine.started.filter((job) => (job.starts ?? 0) > starts);
    expect(after.length).toBeGreaterThan(150);
  });

  test('The past use of owners who wait halves after each half-life', () => {
    let time = 0;
    const shares = new Shares(() => time);
    shares.hold('ana', 2);
    time = hour;
    shares.hold('ana', -2);
    const used = shares.of('ana');
    expect(used / hour).toBeGreaterThan(1.85);
    expect(used / hour).toBeLessThanOrEqual(2);
    time += halfLife;
    expect(shares.of('ana')).toBeCloseTo(used / 2, 3);
    shares.remember('bob', used, halfLife);
    expect(shares.of('bob')).toBeCloseTo(used / 2, 3);
    expect(shares.of('nobody')).toBe(0);
  });
});

describe('a limit of simultaneous GPUs', () => {
  const any: DeviceRequest = { kind: 'anyGpu' };

  test('A limit of simultaneous GPUs keeps excess jobs of an owner waiting, without withholding GPUs from others', async () => {
    const machine = new Machine(4, (owner) => (owner === 'ana' ? 1 : null));
    let most = 0;
    await machine.run(
      [
        ...Array.from({ length: 20 }, (_, number) => ({
          number,
          owner: 'ana',
          request: any,
          arrives: 0,
          lasts: minute,
        })),
        ...Array.from({ length: 20 }, (_, number) => ({
          number: 100 + number,
          owner: 'bob',
          request: any,
          arrives: 0,
          lasts: minute,
        })),
      ],
      () => {
        most = Math.max(most, machine.running.filter(({ owner }) => owner === 'ana').length);
      },
    );
    expect(most).toBe(1);
    expect(machine.started.findLastIndex(({ owner }) => owner === 'bob')).toBeLessThan(30);
    expect(machine.started).toHaveLength(40);
  });

  test('A limit of simultaneous GPUs lets no later job of the owner overtake one that waits for the limit', async () => {
    const machine = new Machine(4, () => 2);
    const job = (number: number, request: DeviceRequest, lasts: number) => ({
      number,
      owner: 'ana',
      request,
      arrives: number,
      lasts,
    });
    await machine.run([
      job(0, any, 10 * minute),
      job(1, { kind: 'gpus', ids: [2, 3] }, minute),
      ...Array.from({ length: 50 }, (_, index) => job(2 + index, any, 3 * minute)),
    ]);
    expect(machine.started.slice(0, 3).map(({ number }) => number)).toEqual([0, 1, 2]);
  });
});

const gpu = (...ids: number[]): DeviceRequest => ({ kind: 'gpus', ids });
const cpu = (workers: number): DeviceRequest => ({ kind: 'cpu', workers });
const known = (count: number) => Array.from({ length: count }, (_, id) => ({ id, uuid: '' }));

test("A job that waits for its owner's limit does not withhold the GPU that it names from others", async () => {
  let most = 1;
  const scheduler = new Scheduler(known(2), 1, { maxGpus: (owner) => (owner === 'ana' ? most : null) });
  await scheduler.request(deviceOrder(gpu(0), { owner: 'ana' })).granted;
  const waits = scheduler.request(deviceOrder(gpu(1), { owner: 'ana' }));
  // It would be the turn of the other one.
  scheduler.remember('bob', 100 * hour, 0);
  expect((await scheduler.request(deviceOrder(gpu(1), { owner: 'bob' })).granted).gpus).toEqual([1]);
  expect(waits.waitingFor()).toBe("GPU 1: token 'ana' may have 1 at once and has 1");
  // The CPU is none of them, also for somebody who has more than they may have by now.
  most = 0;
  expect((await scheduler.request(deviceOrder(cpu(1), { owner: 'ana' })).granted).cpuSlots).toBe(1);
});

test('Returned devices no longer count as held', async () => {
  const scheduler = new Scheduler(known(1), 1, { now: () => 0 });
  for (const device of [cpu(1), gpu(0)]) {
    const ask = (owner: string) => scheduler.request(deviceOrder(device, { owner }));
    const first = await ask('ana').granted;
    const [next, other] = [ask('ana'), ask('bob')];
    scheduler.release(first);
    expect([next.position(), other.position()]).toEqual([null, expect.any(Number)]);
  }
});

test('A job that accepts any GPU gets the most suitable one, except one that a queued job names', async () => {
  const prefers = (id: number) => (each: number) => (each === id ? 0 : 1);
  const scheduler = new Scheduler(known(3), 1);
  const any: DeviceRequest = { kind: 'anyGpu' };
  expect((await scheduler.request(deviceOrder(any, { rank: prefers(2) })).granted).gpus).toEqual([2]);
  const later = new Scheduler(null, 1);
  const [first, second] = [
    later.request(deviceOrder(any, { rank: prefers(0) })),
    later.request(deviceOrder(gpu(0))),
  ];
  later.setGpus(known(2));
  expect([(await first.granted).gpus, (await second.granted).gpus]).toEqual([[1], [0]]);
});

test('A paused scheduler grants nothing, reports that it is paused, and resumes later', async () => {
  let isPaused = true;
  const scheduler = new Scheduler(known(1), 1, { pause: () => (isPaused ? 'the next start' : null) });
  let changes = 0;
  scheduler.on('change', () => {
    changes += 1;
  });
  const ticket = scheduler.request(deviceOrder(gpu(0)));
  expect(ticket.position()).toBe(1);
  await expect.poll(() => changes).toBe(1);
  expect(ticket.waitingFor()).toBe('the next start');
  isPaused = false;
  scheduler.reconsider();
  expect((await ticket.granted).gpus).toEqual([0]);
});
