// @ts-check
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';

/** The programs of a cluster, and the Debian packages that have them. */
const packages = {
  slurmctld: 'slurmctld',
  slurmd: 'slurmd',
  sbatch: 'slurm-client',
  munged: 'munge',
  unshare: 'util-linux',
};

/** Where Debian puts daemons, which is not in everybody's PATH. */
const daemons = '/usr/sbin:/sbin';

/** The PATH by which a cluster's programs are found. */
export const programPath = () => `${process.env.PATH}:${daemons}`;

/** @param {string} program */
export const isInstalled = (program) =>
  programPath()
    .split(':')
    .some((directory) => existsSync(path.join(directory, program)));

const missing = () =>
  Object.entries(packages).flatMap(([program, name]) => (isInstalled(program) ? [] : [name]));

/** Makes a device and namespaces, as a cluster does, in a directory that is removed. */
const probe =
  'd=$(mktemp -d) && trap "rm -r $d" EXIT && mknod $d/device c 1 3 && unshare --pid --mount --uts --fork --mount-proc true';

/**
 * Why no cluster can be started on this machine; null if one can.
 * @returns {string | null}
 */
export function whyNoCluster() {
  if (process.platform !== 'linux') return 'Slurm runs on Linux';
  if (process.getuid?.() !== 0) return 'a cluster of its own needs root';
  const names = missing();
  if (names.length > 0) return `the Debian packages ${names.join(', ')} are not installed`;
  if (spawnSync('sh', ['-c', probe], { stdio: 'ignore' }).status !== 0) {
    return 'this machine does not let root make devices and namespaces (a container without the right to?)';
  }
  return null;
}

/** Installs the Debian packages that are missing, if this is root on a Debian; what it cannot, `whyNoCluster` says. */
export function installMissing() {
  const names = missing();
  if (names.length === 0 || process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return;
  console.error(`Installing ${names.join(', ')}`);
  // In runlevel 1 no package starts its service.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  try {
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...names], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  } catch {
    // apt-get has said why.
  }
}
