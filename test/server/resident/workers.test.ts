import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { WorkerOrder } from '../../../src/server/executors/resident/worker.js';
import {
  isWorkerId,
  parseWorkerState,
  readWorkerRequest,
} from '../../../src/server/executors/resident/worker-records.js';
import { Workers } from '../../../src/server/executors/resident/workers.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { FakeHost, workerRequest } from './fake-host.js';

let root: string;
let hosts: FakeHost[] = [];

beforeEach(async () => {
  const place = await temporary();
  onTestFinished(() => place[Symbol.asyncDispose]());
  root = place.path;
  hosts = [];
});

const idOf = (number: number) => `worker-${String(number).padStart(12, '0')}`;

let made = 0;
/** A worker of an earlier server. */
function host(
  ...[more, state]: [ConstructorParameters<typeof FakeHost>[2]?, ConstructorParameters<typeof FakeHost>[3]?]
) {
  made += 1;
  const found = new FakeHost(root, idOf(made), more, state);
  hosts.push(found);
  return found;
}

/** The workers of a server that finds those of an earlier one. */
function workers() {
  const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
  const all = new Workers({
    ...{ directory: root, environment: {}, idle: 60_000, memoryUse: () => 0, report },
    ...{ sandbox: null, limits: { memory: null, processes: null } },
  });
  onTestFinished(() => {
    willing(...hosts);
    return all.close();
  });
  return all;
}

/** What a job's worker has to be like. */
const order = (more: Partial<WorkerOrder> = {}): WorkerOrder => ({
  ...workerRequest(''),
  wrapper: () => [],
  ...more,
});

const asked = (...hosts: FakeHost[]) => hosts.map((each) => each.asked);
const told = (...hosts: FakeHost[]) => until('they are told', () => hosts.every((each) => each.asked > 0));
/** Makes each of these leave as soon as it is asked to. */
const willing = (...hosts: FakeHost[]) => {
  for (const each of hosts) each.onLeave = () => each.leave();
};
test('A job gets a free worker with matching settings, once, and workers with other settings leave', async () => {
  const same = host();
  const others = [host({ content: 'other settings' }), host({ seen: 'another version' })];
  const unrelated = host({ sharedBy: 'another app', content: 'other settings' });
  const busy = host({}, { state: 'busy', job: 'another job' });
  const all = workers();
  const worker = await all.choose(order(), 'one');
  expect([worker?.request.id, worker?.promised]).toEqual([same.id, 'one']);
  // As after a first try in which it was started.
  expect(await all.startFor('one', order())).toBe(worker);
  await told(...others);
  expect(await all.choose(order(), 'two')).toBeNull();
  expect(asked(same, ...others, unrelated, busy)).toEqual([0, 1, 1, 0, 0]);
  expect([all.idsOf('one'), all.idsOf('another job'), all.idsOf('two')]).toEqual([[same.id], [busy.id], []]);
  await all.release('one');
  expect(await all.choose(order(), 'two')).toBe(worker);
});

test('The GPUs of a job are cleared of other workers, by their ids and by their UUIDs', async () => {
  const [byId, byUuid] = [host({ gpus: [0] }), host({ gpus: [5], gpuUuids: ['GPU-a'] })];
  const beside = [host({ gpus: [2] }), host()];
  const own = host({ gpus: [0, 1], sharedBy: 'own' });
  const all = workers();
  const worker = await all.choose(order({ sharedBy: 'own' }), 'one');
  let isCleared = false;
  const cleared = all
    .clear({ gpus: [0, 1], gpuUuids: ['GPU-a'] }, worker, () => 0)
    .then(() => {
      isCleared = true;
    });
  await told(byId, byUuid);
  byId.leave();
  await until('it is gone', () => !existsSync(byId.directory));
  expect(isCleared).toBe(false);
  byUuid.leave();
  await cleared;
  expect(asked(own, ...beside)).toEqual([0, 0, 0]);
});

test('A shared GPU loses only idle workers whose memory does not fit beside its jobs, the longest idle first', async () => {
  const shared = (gpuMemory: number | null) => host({ gpus: [0], gpuMemory });
  const [older, newer, unshared] = [shared(6), shared(6), shared(null)];
  const busy = host({ gpus: [0], gpuMemory: 6 }, { state: 'busy', job: 'another job' });
  willing(older, newer, unshared);
  const all = workers();
  await all.choose(order({ sharedBy: 'own' }), 'one');
  // It has just become idle.
  newer.say({ state: 'busy', job: 'a job' });
  await until('it is busy', () => all.idsOf('a job').length > 0);
  newer.say({ state: 'idle', job: null });
  await until('it is idle', () => all.idsOf('a job').length === 0);
  await all.clear({ gpus: [0], gpuUuids: [] }, null, () => 10);
  expect(asked(older, newer, unshared, busy)).toEqual([1, 0, 1, 0]);
});

test('A worker that cannot be reached is cleaned up, and anything that is not a worker is left alone', async () => {
  const names = { noRecord: idOf(90), ofAnother: idOf(91), noSocket: idOf(92), foreign: 'worker-x' };
  for (const name of Object.values(names)) mkdirSync(path.join(root, name));
  const write = (name: string, content: unknown) =>
    writeFileSync(path.join(root, name, 'worker.json'), JSON.stringify(content));
  write(names.ofAnother, workerRequest(idOf(1)));
  write(names.noSocket, workerRequest(names.noSocket));
  write(names.foreign, workerRequest(names.foreign));
  const all = workers();
  expect(await all.choose(order(), 'one')).toBeNull();
  expect(Object.values(names).filter((name) => existsSync(path.join(root, name)))).toEqual([names.foreign]);
});

test('Invalid files and reports of a worker host are refused', () => {
  expect(
    ['worker-0123456789ab', 'worker-0123', 'xworker-0123456789ab', 'worker-0123456789abc'].map(isWorkerId),
  ).toEqual([...[true, false, false, false]]);
  const directory = path.join(root, idOf(1));
  mkdirSync(directory);
  expect(readWorkerRequest(directory)).toBeUndefined();
  const write = (content: unknown) =>
    writeFileSync(path.join(directory, 'worker.json'), JSON.stringify(content));
  const request = workerRequest(idOf(1), { owner: 'ana', gpus: [1], gpuUuids: ['GPU-b'], filter: 'x' });
  write(request);
  expect(readWorkerRequest(directory)).toEqual(request);
  write({ ...request, idle: -1 });
  expect(readWorkerRequest(directory)).toBeUndefined();
  expect(parseWorkerState({ state: 'busy', job: 'one' })).toEqual({ state: 'busy', job: 'one' });
  for (const state of ['', { state: 'gone', job: null }, { state: 'idle' }])
    expect(() => parseWorkerState(state)).toThrow();
});
