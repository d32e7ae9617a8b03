// @ts-check
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { freePorts } from '../ports.mjs';
import { deviceFile, gresConf, placesIn, slurmConf } from './configuration.mjs';

/**
 * Makes the temporary directory of a cluster, with its configuration, its key and the files that stand for GPUs.
 * @param {import('./configuration.mjs').Shape} shape
 */
export async function makeDirectory(shape) {
  const [controller = 0, accounting = 0, database = 0, ...nodes] = await freePorts(shape.nodes.length + 3);
  const ports = { controller, accounting, database, nodes };
  const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-slurm-'));
  const { configuration, gres, devices, logs, munge, spool, state, shared } = placesIn(directory);
  // Others must reach the socket of munge and the configuration; munge wants to know that nobody else writes there.
  chmodSync(directory, 0o755);
  for (const each of [devices, logs, munge, spool, state]) mkdirSync(each, { mode: 0o755 });
  mkdirSync(shared);
  chmodSync(shared, 0o1777);
  writeFileSync(path.join(munge, 'key'), randomBytes(128), { mode: 0o400 });
  for (const { name, gpus = 0 } of shape.nodes) {
    mkdirSync(path.join(spool, name));
    mkdirSync(path.join(devices, name));
    for (let index = 0; index < gpus; index += 1) {
      execFileSync('mknod', ['-m', '666', deviceFile(directory, name, index), 'c', '1', '3']);
    }
  }
  writeFileSync(configuration, slurmConf(directory, hostname(), ports, shape));
  writeFileSync(gres, gresConf(directory, shape));
  return { directory, ports };
}
