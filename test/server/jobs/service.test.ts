import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { theAdmin } from '../../../src/access/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import type { Executor, RunEvent, RunOrder } from '../../../src/server/executors/index.js';
import { TestClock } from '../../support/test-clock.js';
import { ana, appsOfTests, executor, idOf, request, serviceWith, slotOf, stoppedEnd } from './job-service.js';

/** Jobs on it run until they are stopped. */
function endless(): Executor & { readonly grants: (readonly number[] | null)[] } {
  const ends = new Map<string, () => void>();
  const grants: (readonly number[] | null)[] = [];
  async function* run({ directory, grant }: RunOrder): AsyncGenerator<RunEvent> {
    grants.push(grant?.gpus ?? null);
    const stopped = new Promise<void>((resolve) => ends.set(directory.id, resolve));
    if (!grant) yield { kind: 'placed', where: 'GPU 3', grant: { gpus: [3], gpuUuids: [], cpuSlots: 0 } };
    await stopped;
    yield stoppedEnd;
  }
  return {
    ...executor,
    grants,
    run: (order) => {
      const events = run(order);
      return { [Symbol.asyncIterator]: () => events };
    },
    stop: async ({ id }) => ends.get(id)?.(),
  };
}

const running = { apps: appsOfTests };

/** Events of these names from now on. */
function follow(events: ServerEvents, ...names: Parameters<ServerEvents['on']>[0][]) {
  const told: unknown[][] = [];
  for (const name of names) events.on(name, (what) => told.push([name, what]));
  return told;
}

const facts = { files: {}, notes: ["Ignored field 'x'"], bytes: 600, extracted: 400 };

test('A start removes what an earlier server could not: its trash, uploads, and removed jobs', async () => {
  const left = [`trash/${idOf(7)}.0a1b2c3d`, `incoming/${idOf(8)}`, `jobs/${idOf(0)}`];
  const { service, root } = await serviceWith([{}, {}], 10, {
    before: (at) => {
      for (const name of [...left, 'trash/notes']) mkdirSync(path.join(at, name), { recursive: true });
      writeFileSync(path.join(at, 'expired'), `${idOf(0)} 2026-01-01T00:00:00.000Z removed of ana\n`);
    },
  });
  expect(service.list().map(({ id }) => id)).toEqual([idOf(1)]);
  expect(() => service.get(idOf(0), ana)).toThrow(
    `Job ${idOf(0)} was removed at 2026-01-01T00:00:00.000Z; submit it again`,
  );
  await expect.poll(() => left.filter((name) => existsSync(path.join(root, name)))).toEqual([]);
  expect(existsSync(path.join(root, 'trash/notes'))).toBe(true);
});

test('Jobs that were running resume before those that were waiting, so that they keep their devices', async () => {
  const jobs = endless();
  const ran = { state: 'running', startedAt: '2026-01-01T00:00:00.000Z', gpus: [1, 2] } as const;
  const { service } = await serviceWith([{ state: 'waiting', finishedAt: null }, ran], 10, {
    ...running,
    executor: jobs,
  });
  await expect.poll(() => jobs.grants).toEqual([[1, 2], null]);
  await service.close('kill');
  expect(service.list().map(({ state, record }) => [state, record.error])).toEqual([
    ['killed', 'The server was stopped'],
    ['killed', 'The server was stopped'],
  ]);
});

describe("the storage used by an owner's jobs", () => {
  test('The disk use of an owner falls when a failed job loses its files because the disk is short', async () => {
    const { service } = await serviceWith([{ state: 'error' }], 10, {
      before: (root) =>
        writeFileSync(path.join(root, 'jobs', idOf(0), 'Output/large'), Buffer.alloc(2 ** 20)),
    });
    const [before] = await service.kept();
    expect(before?.bytes).toBeGreaterThan(2 ** 20);
    await service.makeRoom(1, 'ana');
    const [after] = await service.kept();
    expect((before?.bytes ?? 0) - (after?.bytes ?? 0)).toBeGreaterThanOrEqual(2 ** 20);
  });
});

test("A job's storage counts from its acceptance, including its upload and extracted files", async () => {
  const events = new ServerEvents(() => {});
  const told = follow(events, 'accepted', 'drained', 'removed');
  const { service } = await serviceWith([], 10, { ...running, executor: endless(), events });
  await using slot = await slotOf(service, ana);
  slot.directory.makeDirectories();
  // An upload in progress may become a job: it counts for whoever waits for the last one.
  service.drain(true);
  service.drain(true);
  expect(service.drainState).toEqual({ draining: true, active: 1 });
  const job = await service.accept(slot, { ...request, owner: 'ana' }, facts);
  await expect.poll(() => job.state).toBe('running');
  expect(await service.kept()).toEqual([{ owner: 'ana', app: 'tissue', endedAt: null, bytes: 1000 }]);
  expect(job.directory.hasLogged("Ignored field 'x'", false)).toBe(true);
  await expect(service.remove(job)).rejects.toThrow(
    `Job ${job.id} is running; kill it first, or wait for its end`,
  );
  expect(told).toEqual([
    ['drained', { isDraining: true, active: 1 }],
    ['accepted', { id: job.id, app: 'tissue', operation: 'infer', owner: 'ana', bytes: 600 }],
  ]);
  expect(await service.kill(job)).toEqual({ job_id: job.id, status: 'killed', message: 'Job killed' });
});

test('A job whose upload ends while the server stops is left to the next server', async () => {
  const jobs = endless();
  const { service } = await serviceWith([], 10, { ...running, executor: jobs });
  await using slot = await slotOf(service, ana);
  slot.directory.makeDirectories();
  const accepted = service.accept(slot, { ...request, owner: 'ana' }, { ...facts, notes: [] });
  await service.close('keep');
  const job = await accepted;
  await delay(10);
  expect([job.state, job.directory.exists(), jobs.grants]).toEqual(['queued', true, []]);
});

test('A job that is removed at the moment when it ends is removed once', async () => {
  const clock = new TestClock();
  const events = new ServerEvents(() => {});
  const told = follow(events, 'removed');
  const { service } = await serviceWith([], 10, { ...running, executor: endless(), events, clock });
  await using slot = await slotOf(service, ana);
  slot.directory.makeDirectories();
  const job = await service.accept(slot, { ...request, owner: 'ana' }, { ...facts, notes: [] });
  await expect.poll(() => job.state).toBe('running');
  let removed: Promise<void> | undefined;
  job.on('change', () => {
    if (job.isFinal) removed ??= service.remove(job);
  });
  await service.kill(job);
  await removed;
  clock.pass(7200);
  expect(told.map(([, what]) => what)).toEqual([
    { id: job.id, app: 'tissue', operation: 'infer', owner: 'ana', cause: 'removed' },
  ]);
  expect(() => service.get(job.id, theAdmin)).toThrow('was removed at');
  expect(existsSync(job.directory.path)).toBe(false);
});

test('A running job whose record cannot be read is ended with the server, and an admin is told', async () => {
  const stopped: string[] = [];
  const left: string[] = [];
  const { service, directory } = await serviceWith([{}], 10, {
    before: (root) => writeFileSync(path.join(root, 'jobs', idOf(0), 'job.json'), '{}'),
    report: (problem) => left.push(problem),
    executor: { ...executor, isRunning: () => true, stop: async (job) => void stopped.push(job.path) },
  });
  expect(left).toEqual([`Job ${idOf(0)} is left as it is until it can be read`]);
  expect(() => service.get(idOf(0), theAdmin)).toThrow(
    `The record of job ${idOf(0)} cannot be read at the moment; ask again later`,
  );
  expect(() => service.get(idOf(0), ana)).toThrow('Unknown job_id');
  await service.close('kill');
  expect(stopped).toEqual([directory(0)]);
});

test('The notice of an end includes the version of the app even if that is known later, and remains due until it is sent', async () => {
  let tell = (_version: string) => {};
  const known = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const { service } = await serviceWith([], 10, {
    apps: { ...appsOfTests, versionOf: async () => ({ known }) },
    executor: endless(),
    areEndsNoticed: true,
  });
  await using slot = await slotOf(service, ana);
  slot.directory.makeDirectories();
  const job = await service.accept(slot, { ...request, owner: 'ana' }, { ...facts, notes: [] });
  await expect.poll(() => job.state).toBe('running');
  await service.kill(job);
  const [end] = service.unnoticedEnds();
  if (!end) throw new Error('No notice is due');
  expect(end).toMatchObject({
    id: job.id,
    state: 'killed',
    error: 'Killed by user',
    exitCode: 143,
    version: null,
    gpus: [3],
    received: 600,
    bytes: null,
  });
  const begin = vi.spyOn(job, 'beginEndNotice');
  const begun = service.beginEndNotice(end);
  await delay(0);
  expect(begin).not.toHaveBeenCalled();
  tell('1.2');
  expect(await begun).toEqual({ ...end, version: '1.2' });
  expect([await service.beginEndNotice(end), service.unnoticedEnds()]).toEqual([null, []]);
  // A job may be removed before its notice begins.
  await service.remove(job);
  expect(await service.beginEndNotice(end)).toBe(end);
});
