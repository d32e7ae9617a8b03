import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, onTestFinished, vi } from 'vitest';
import { GpuInventory } from '../../../src/server/devices/gpu-inventory.js';
import { ServerEvents } from '../../../src/server/events.js';
import { LocalExecutor, type LocalSettings } from '../../../src/server/executors/local/index.js';
import { FakeNvidiaSmi } from '../../support/nvidia-smi.js';
import type { Subject } from './support.js';

const bin = fileURLToPath(new URL('../../fixtures/bin', import.meta.url));
const { PATH } = process.env;
const inventories: GpuInventory[] = [];

afterEach(() => {
  for (const inventory of inventories.splice(0)) inventory.close();
  vi.unstubAllEnvs();
});

/** The inventory of a machine with so many GPUs; null for one whose nvidia-smi fails. */
async function inventoryOf(count: number | null): Promise<GpuInventory> {
  vi.stubEnv('PATH', `${bin}:${PATH}`);
  vi.stubEnv('FAKE_GPUS', String(count));
  if (count === null) {
    const smi = new FakeNvidiaSmi('fail');
    onTestFinished(() => smi[Symbol.dispose]());
    for (const [name, value] of Object.entries(smi.environment)) vi.stubEnv(name, value);
  }
  const inventory = new GpuInventory(undefined);
  inventories.push(inventory);
  await inventory.start();
  return inventory;
}

/** The executor of this machine, with one CPU slot. */
export const localSubject = (more: Partial<LocalSettings> = {}): Subject => ({
  make: async (count = 0) => {
    const gpus = await inventoryOf(count);
    return new LocalExecutor({
      gpus,
      cpuSlots: 1,
      processors: 1,
      environment: process.env,
      killGrace: 300,
      maxLogBytes: 1 << 20,
      sandbox: null,
      limits: { memory: null, processes: null },
      workers: { directory: path.join(tmpdir(), 'nonexistent'), idle: 0, memoryUse: () => 0 },
      passEnvironment: [],
      program: fileURLToPath(new URL('../../../dist/runner/main.js', import.meta.url)),
      report: () => {},
      dataDirectory: tmpdir(),
      events: new ServerEvents(() => {}),
      ...more,
    });
  },
  lose: (directory) => {
    const { runner } = JSON.parse(readFileSync(path.join(directory, 'runner.json'), 'utf8')) as {
      runner: { pid: number };
    };
    process.kill(runner.pid, 'SIGKILL');
  },
});
