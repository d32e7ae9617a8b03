import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { RunRequest } from '../../../src/runner/index.js';
import type { Resident, RunOrder } from '../../../src/server/executors/index.js';
import { Workers, type WorkersSettings } from '../../../src/server/executors/resident/index.js';
import type { WorkerOrder } from '../../../src/server/executors/resident/worker.js';
import { smallDisk } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';
import { TestJob } from '../executors/support.js';
import { FakeHost } from './fake-host.js';

let root: string;
let hosts: FakeHost[];

beforeEach(async () => {
  const place = await temporary();
  onTestFinished(() => place[Symbol.asyncDispose]());
  root = place.path;
  hosts = [];
});

function residency(more: Partial<WorkersSettings> = {}): Workers {
  const all = new Workers({
    sandbox: null,
    limits: { memory: null, processes: null },
    environment: { PATH: '/bin', GIVEN: 'given' },
    report: (problem, cause) => expect.fail(`${problem}: ${cause}`),
    directory: root,
    idle: 60_000,
    memoryUse: () => 0,
    ...more,
  });
  onTestFinished(() => {
    for (const each of hosts) each.onLeave = () => each.leave();
    return all.close();
  });
  return all;
}

const onGpu = (...gpus: number[]) => ({ gpus, gpuUuids: [], cpuSlots: 0 });
const app = (name: string, more: Partial<Resident> = {}): Resident => ({
  name,
  command: ['python3', '/apps/main.py', 'resident', name],
  programWords: 2,
  watched: [],
  isShared: false,
  access: () => ({ network: false, directories: [], environment: {} }),
  ...more,
});
const ofApp = (resident: Resident | null, more: Partial<RunOrder> = {}): RunOrder =>
  new TestJob(root).order('', { resident: () => resident, ...more });

/** How the job would be started without a worker. */
const frame = (order: RunOrder, environment: RunRequest['environment'] = {}) => ({
  jobId: order.directory.id,
  limits: { memory: null, processes: null },
  isSandboxed: false,
  directory: order.directory.workspace,
  output: order.directory.output,
  inherited: ['GIVEN'],
  environment: { SAME: '1', TMPDIR: order.directory.temporary, ...environment },
  maxLogBytes: 1,
  killGrace: 1000,
  gpuUuids: [],
});

/** The booking of a job that has its GPUs for itself. */
const unshared = { share: null, leftOf: () => 0 };

/** A worker like this that an earlier server has started. */
function host(order: Partial<WorkerOrder>): FakeHost {
  const { wrapper: _, ...more } = order;
  const found = new FakeHost(root, `worker-${String(hosts.length + 1).padStart(12, '0')}`, more);
  hosts.push(found);
  return found;
}

async function orderOf(order: RunOrder, ...gpus: number[]): Promise<WorkerOrder> {
  const { loaded } = await residency().assign(order, onGpu(...gpus), frame(order), unshared);
  if (!loaded) throw new Error('It does not stay loaded');
  return loaded.order;
}

const disk = smallDisk(1, 1);

test.skipIf(disk === null)(
  'A job whose app cannot be kept loaded starts it just for itself, and waits for disk space',
  async () => {
    const told: string[] = [];
    const order = ofApp(app('liver'));
    const callFrom = async (directory: string) => {
      const all = residency({ directory, report: (problem) => told.push(problem) });
      const assignment = await all.assign(order, onGpu(1), frame(order), unshared);
      return await all.callOf({ ...frame(order), command: ['python3'], wrapper: [] }, assignment);
    };
    await expect(callFrom(disk ?? '')).rejects.toMatchObject({ code: 'ENOSPC' });
    expect(told).toEqual([]);
    writeFileSync(path.join(root, 'file'), '');
    expect(await callFrom(path.join(root, 'file/below'))).toBeNull();
    expect(told).toEqual([
      `The app of job ${order.directory.id} could not be kept loaded; it is started for this job only`,
    ]);
  },
);

test('Two jobs share a worker only for the same app, devices, owner, variables and files', async () => {
  const watched = path.join(root, 'weights');
  writeFileSync(watched, '1');
  const liver = app('liver', { watched: [watched] });
  const base = await orderOf(ofApp(liver), 1);
  const same = await orderOf(ofApp(liver), 1);
  expect([same.sharedBy, same.content, same.seen]).toEqual([base.sharedBy, base.content, base.seen]);
  for (const other of [
    await orderOf(ofApp(liver), 2),
    await orderOf(ofApp(liver, { owner: 'ana' }), 1),
    await orderOf(ofApp(app('lungs')), 1),
  ])
    expect(other.sharedBy).not.toBe(base.sharedBy);
  // The ids of GPUs may change, and their UUIDs do not.
  const byUuid = async (gpu: number, ...gpuUuids: string[]) => {
    const order = ofApp(liver);
    const { loaded } = await residency().assign(order, { ...onGpu(gpu), gpuUuids }, frame(order), unshared);
    return loaded?.order.sharedBy;
  };
  expect(await byUuid(1, 'GPU-a')).toBe(await byUuid(2, 'GPU-a'));
  expect(await byUuid(1, 'GPU-a')).not.toBe(await byUuid(1, 'GPU-b'));
  const order = ofApp(liver);
  const { loaded } = await residency().assign(order, onGpu(1), frame(order, { SAME: '2' }), unshared);
  expect(loaded?.order).toMatchObject({ sharedBy: base.sharedBy, seen: base.seen });
  expect(loaded?.order.content).not.toBe(base.content);
  const changed = residency({ environment: { GIVEN: 'another' } });
  const again = await changed.assign(order, onGpu(1), frame(order), unshared);
  expect(again.loaded?.order.content).not.toBe(base.content);
  writeFileSync(watched, '12');
  const newer = await orderOf(ofApp(liver), 1);
  expect([newer.content, newer.seen === base.seen]).toEqual([base.content, false]);
});

test('A GPU where the app is loaded is preferred, and one where another is loaded is the last choice', async () => {
  host({ name: 'liver', owner: 'ana', gpus: [0] });
  host({ name: 'lungs', owner: 'ana', gpus: [2] });
  host({ name: 'liver', owner: 'ben', gpus: [3] });
  host({ name: 'liver', owner: 'ben', isShared: true, gpus: [4] });
  const all = residency();
  await all.release('none');
  const order = ofApp(app('liver'), { owner: 'ana' });
  expect([0, 1, 2, 3, 4].map((gpu) => all.rank(order, gpu))).toEqual([0, 1, 2, 2, 0]);
  expect([0, 1].map((gpu) => all.rank(ofApp(null), gpu))).toEqual([2, 1]);
  expect(all.loaded()).toHaveLength(4);
  for (const each of hosts) each.onLeave = () => each.leave();
  await all.endIdle();
  expect([all.loaded(), all.rank(order, 2)]).toEqual([[], 0]);
});
