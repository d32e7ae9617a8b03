import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { GpuInventory } from '../../../src/server/devices/gpu-inventory.js';
import { NvidiaSmi } from '../../../src/server/devices/nvidia-smi.js';
import { ServerEvents } from '../../../src/server/events.js';
import { MachineWatch } from '../../../src/server/executors/local/machine-watch.js';
import { least, steps } from '../../support/form.js';
import { FakeNvidiaSmi } from '../../support/nvidia-smi.js';
import { TestServer } from '../../support/server.js';
import { smallDisk } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

const bin = fileURLToPath(new URL('../../fixtures/bin', import.meta.url));
const faultsOf = async (server: TestServer) =>
  (await server.api.json<{ faults?: string[] }>('/health')).faults ?? [];

/** The GPU of a job. */
const on = (id: number, ...gpuUuids: readonly string[]) => ({ gpus: [id], gpuUuids });

/** A program in place of bwrap, which confines nothing, and fails while there is a file `broken` beside it. */
const imitation = `#!/bin/sh
[ "$1" != --version ] || exec echo bubblewrap 0.9.0
if [ -e "$(dirname "$0")/broken" ]; then echo "bwrap: Can't open source /usr" >&2; exit 1; fi
while [ "$1" != -- ]; do [ "$1" != --json-status-fd ] || status=3; shift; done
shift
"$@"
code=$?
[ -z "$status" ] || echo "{ \\"exit-code\\": $code }" >&3
exit $code
`;

test('While the sandbox does not start, jobs wait instead of failing, and run when it starts again', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  writeFileSync(path.join(root.path, 'bwrap'), imitation);
  chmodSync(path.join(root.path, 'bwrap'), 0o755);
  const broken = path.join(root.path, 'broken');
  await using server = await TestServer.start({
    runners: true,
    flags: ['--sandbox', 'bwrap', '--cpu-slots', '1', '--metrics'],
    environment: { PATH: `${root.path}:${process.env.PATH}` },
  });
  const { api } = server;
  expect((await api.run('infer', least.infer)).view.status).toBe('done');
  writeFileSync(broken, '');
  const ids: string[] = [];
  for (let job = 0; job < 3; job += 1) ids.push((await api.accepted('infer', least.infer)).job_id);
  const what = "The sandbox does not start any more (bwrap: Can't open source /usr): jobs wait";
  await until('the fault is known', async () => (await faultsOf(server)).length > 0);
  expect(await faultsOf(server)).toEqual([what]);
  expect(await (await api.fetch('/metrics')).text()).toContain('remote_app_faults 1\n');
  for (const id of ids) {
    const { waiting_for, assigned_gpus, started_at } = await api.reaches(id, 'waiting');
    expect([waiting_for, assigned_gpus, started_at]).toEqual([
      "the server's sandbox, which does not start at the moment",
      [],
      null,
    ]);
  }
  rmSync(broken);
  for (const id of ids) expect((await api.ended(id)).view.status).toBe('done');
  expect(await faultsOf(server)).toEqual([]);
  expect(server.stderr.split(what)).toHaveLength(2);
  expect(server.stderr).toContain('The fault of the sandbox is gone: jobs start again');
});

test('A job that its own sandbox keeps from starting fails, and others run', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  // It fails for each job, and works without one.
  const failing = imitation.replace('shift\n"$@"', '[ -z "$status" ] || exit 1\nshift\n"$@"');
  writeFileSync(path.join(root.path, 'bwrap'), failing);
  chmodSync(path.join(root.path, 'bwrap'), 0o755);
  await using server = await TestServer.start({
    runners: true,
    flags: ['--sandbox', 'bwrap'],
    environment: { PATH: `${root.path}:${process.env.PATH}` },
  });
  const { view } = await server.api.run('infer', least.infer);
  expect([view.status, view.error]).toEqual(['error', expect.stringContaining('in its sandbox')]);
  expect(await faultsOf(server)).toEqual([]);
});

test('A GPU that is lost while the server runs fails one job, and gets no more jobs until it returns', async () => {
  using smi = new FakeNvidiaSmi('well');
  const { environment } = smi;
  await using server = await TestServer.start({ runners: true, gpus: 2, environment, flags: ['--metrics'] });
  const { api } = server;
  const gate = server.gate();
  const held = { ...least.infer, ...steps('print=ready', `wait=${gate.path}`) };
  const first = await api.running('infer', held, 'ready');
  expect((await api.job(first)).assigned_gpus).toEqual([0]);
  smi.mode = 'dead';
  const { view } = await api.run('infer', { ...least.infer, ...steps('exit=1') });
  const what = "GPU 1 does not work (nvidia-smi says '[GPU is lost]'): it gets no jobs";
  expect([view.assigned_gpus, view.error]).toEqual([[1], `Subprocess failed (exit code 1). ${what}`]);
  expect(await faultsOf(server)).toEqual([what]);
  expect(await api.json('/available_devices')).toMatchObject({ devices_out: [null, 'faulty'] });
  expect(await (await api.fetch('/metrics')).text()).toContain('remote_app_gpu_faulty{gpu="1"} 1\n');
  const next = (await api.accepted('infer', least.infer)).job_id;
  const named = (await api.accepted('infer', { ...least.infer, gpu: '1' })).job_id;
  expect((await api.reaches(named, 'waiting')).waiting_for).toBe('GPU 1; GPU 1 does not work at the moment');
  gate.open();
  expect((await api.ended(next)).view).toMatchObject({ status: 'done', assigned_gpus: [0] });
  // The next failure makes the server ask again.
  smi.mode = 'well';
  await api.run('infer', { ...least.infer, ...steps('exit=1') });
  expect((await api.ended(named)).view).toMatchObject({ status: 'done', assigned_gpus: [1] });
  expect(await faultsOf(server)).toEqual([]);
});

test('A GPU whose memory other programs have filled is the last choice for jobs that accept any GPU', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const row = (id: number, used: number) => `${id}, GPU-${id}, ${used}, 1000, -, NVIDIA H200`;
  writeFileSync(
    path.join(root.path, 'nvidia-smi'),
    `#!/bin/sh\necho '${row(0, 900)}'\necho '${row(1, 10)}'\n`,
  );
  chmodSync(path.join(root.path, 'nvidia-smi'), 0o755);
  await using server = await TestServer.start({
    runners: true,
    environment: { PATH: `${root.path}:${bin}:${process.env.PATH}` },
  });
  const { id: first, gate } = await server.heldJob();
  const { id: second, gate: other } = await server.heldJob();
  const { api } = server;
  expect((await api.job(first)).assigned_gpus).toEqual([1]);
  expect((await api.job(second)).assigned_gpus).toEqual([0]);
  for (const each of [gate, other]) each.open();
  for (const id of [first, second]) await api.ended(id);
});

test('A fault of a GPU is forgotten when another GPU takes its place', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const lists = (...ids: readonly number[]) => {
    const rows = ids.map((id) => `echo '${id}, GPU-${id}, 10, 1000, -, NVIDIA H200'`);
    writeFileSync(path.join(root.path, 'nvidia-smi'), `#!/bin/sh\n${rows.join('\n')}\n`, { mode: 0o755 });
  };
  lists(0, 1);
  const smi = new NvidiaSmi(undefined, undefined, undefined, { PATH: `${root.path}:${process.env.PATH}` });
  const gpus = new GpuInventory(undefined, smi);
  await gpus.start();
  const events = new ServerEvents(() => {});
  const settings = { dataDirectory: root.path, gpus, sandbox: null, isIdle: () => true, events };
  const watch = new MachineWatch(settings);
  onTestFinished(() => watch.close());
  watch.start();
  lists(0);
  expect(await watch.faultOf(on(1))).toContain('nvidia-smi does not list it any more');
  lists(0, 2);
  expect(await watch.faultOf(on(1))).toBeNull();
  expect(watch.faults).toEqual([]);
});

test('A lost GPU whose number now belongs to another one counts as faulty until it returns', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const lists = (...uuids: readonly string[]) => {
    const rows = uuids.map((uuid, id) => `echo '${id}, ${uuid}, 10, 1000, -, NVIDIA H200'`);
    writeFileSync(path.join(root.path, 'nvidia-smi'), `#!/bin/sh\n${rows.join('\n')}\n`, { mode: 0o755 });
  };
  lists('GPU-a', 'GPU-b');
  const smi = new NvidiaSmi(undefined, undefined, undefined, { PATH: `${root.path}:${process.env.PATH}` });
  const gpus = new GpuInventory(undefined, smi);
  await gpus.start();
  const events = new ServerEvents(() => {});
  const settings = { dataDirectory: root.path, gpus, sandbox: null, isIdle: () => true, events };
  const watch = new MachineWatch(settings);
  onTestFinished(() => watch.close());
  watch.start();
  lists('GPU-b');
  const lost = 'nvidia-smi lists 1 of 2 GPUs: the others are lost, and get no jobs';
  expect(await watch.faultOf(on(0, 'GPU-a'))).toBe(lost);
  expect(await watch.faultOf(on(1, 'GPU-b'))).toBeNull();
  expect(watch.faults).toEqual([lost]);
  lists('GPU-a', 'GPU-b');
  await watch.faultOf(on(1));
  expect(watch.faults).toEqual([]);
});

const disk = smallDisk(16);

test.skipIf(disk === null)(
  'While the disk is full, no job starts, and jobs start when it has room again',
  async () => {
    const told: (string | null)[] = [];
    const events = new ServerEvents(() => {});
    events.on('fault', ({ fault }) => told.push(fault));
    const watch = new MachineWatch({
      dataDirectory: disk ?? '',
      gpus: new GpuInventory(''),
      sandbox: null,
      isIdle: () => true,
      events,
    });
    onTestFinished(() => watch.close());
    expect(watch.pause()).toBeNull();
    writeFileSync(path.join(disk ?? '', 'large'), Buffer.alloc(15.8 * 2 ** 20));
    expect(watch.pause()).toBe("room on the server's disk");
    expect(watch.pause()).toBe("room on the server's disk");
    expect(await watch.faultOf({ gpus: [], gpuUuids: [] })).toMatch(
      /^The disk of the data directory is full/,
    );
    rmSync(path.join(disk ?? '', 'large'));
    expect(watch.pause()).toBeNull();
    expect(told).toEqual([
      expect.stringMatching(/^The disk of the data directory is full \(.* are free\)/),
      null,
    ]);
  },
);
