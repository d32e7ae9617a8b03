import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { GpuInventory } from '../../../src/server/devices/gpu-inventory.js';
import { LocalExecutor } from '../../../src/server/executors/local/local-executor.js';
import { FakeNvidiaSmi } from '../../support/nvidia-smi.js';
import { executorContract } from './contract.js';
import { fullDiskContract } from './full-disk-contract.js';
import { Bench, Followed, type Subject } from './support.js';

const bin = fileURLToPath(new URL('../../fixtures/bin', import.meta.url));
const environment = { ...process.env };
const inventories: GpuInventory[] = [];

afterEach(() => {
  for (const inventory of inventories.splice(0)) inventory.close();
  process.env = { ...environment };
});

/** The inventory of a machine with so many GPUs; null for one whose nvidia-smi fails. */
async function inventoryOf(count: number | null): Promise<GpuInventory> {
  process.env.PATH = `${bin}:${environment.PATH}`;
  process.env.FAKE_GPUS = String(count);
  if (count === null) {
    const smi = new FakeNvidiaSmi('fail');
    onTestFinished(() => smi[Symbol.dispose]());
    Object.assign(process.env, smi.environment);
  }
  const inventory = new GpuInventory(undefined);
  inventories.push(inventory);
  await inventory.start();
  return inventory;
}

const local: Subject = {
  make: async (count = 0) => {
    const gpus = await inventoryOf(count);
    return new LocalExecutor({
      gpus,
      cpuSlots: 1,
      environment: process.env,
      killGrace: 300,
      maxLogBytes: 1 << 20,
      program: fileURLToPath(new URL('../../../dist/runner/main.js', import.meta.url)),
      report: () => {},
    });
  },
  lose: (directory) => {
    const { runner } = JSON.parse(readFileSync(path.join(directory, 'runner.json'), 'utf8')) as {
      runner: { pid: number };
    };
    process.kill(runner.pid, 'SIGKILL');
  },
};

executorContract('the local executor', local);
fullDiskContract('the local executor', local);

test('the local executor reads the end that an older runner wrote', async () => {
  await using bench = await Bench.open(local);
  const job = bench.job();
  const older = { exitCode: null, signal: 'SIGKILL', error: null, endedAt: '2026-01-01T00:00:00.000Z' };
  writeFileSync(path.join(job.path, 'exit.json'), JSON.stringify(older));
  const grant = { gpus: [], gpuUuids: [], cpuSlots: 1 };
  const run = new Followed((await bench.executor()).run(job.order('exit 0', { isAccepted: true, grant })));
  expect(await run.ended).toEqual({
    kind: 'ended',
    exitCode: 137,
    signal: 'SIGKILL',
    fault: 'outOfMemory',
    error: null,
    lostLines: 0,
  });
});
