import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Grant } from '../executors/index.js';

/** Devices that every program on an NVIDIA GPU opens; they lead to no other GPU by themselves. */
const shared = ['nvidiactl', 'nvidia-uvm', 'nvidia-uvm-tools', 'nvidia-modeset', 'nvidia-caps'];

/** Where the driver tells of its GPUs, a directory each. */
const driver = '/proc/driver/nvidia/gpus';

/** The numbers of the GPUs' device files, by their UUIDs; empty where the driver does not tell. */
function deviceMinors(root: string): ReadonlyMap<string, number> {
  try {
    const pairs = readdirSync(root).flatMap((each): [string, number][] => {
      const text = readFileSync(path.join(root, each, 'information'), 'utf8');
      const uuid = /^GPU UUID:\s*(\S+)/m.exec(text)?.[1];
      const minor = /^Device Minor:\s*(\d+)/m.exec(text)?.[1];
      return uuid && minor ? [[uuid, Number(minor)]] : [];
    });
    return new Map(pairs);
  } catch {
    return new Map();
  }
}

/**
 * The device files of a grant: those of its own GPUs, and what all GPUs share. None for a job on the CPU. A GPU's file is
 * numbered by the driver, which counts in another order than nvidia-smi on some machines; where the driver does not tell
 * its numbers, nvidia-smi's are taken.
 */
export function gpuDevices({ gpus, gpuUuids }: Pick<Grant, 'gpus' | 'gpuUuids'>, root = driver): string[] {
  if (gpus.length === 0) return [];
  const minors = deviceMinors(root);
  const told = gpuUuids.flatMap((uuid) => minors.get(uuid) ?? []);
  const numbers = told.length === gpus.length ? told : gpus;
  return [...numbers.map((each) => `nvidia${each}`), ...shared].map((name) => `/dev/${name}`);
}
