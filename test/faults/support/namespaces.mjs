// @ts-check
import { spawn, spawnSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';

/** Names the namespaces that a contained harness was started from. */
const variable = 'FAULTS_OUTSIDE';

const here = () => ['mnt', 'pid'].map((name) => readlinkSync(`/proc/self/ns/${name}`));

/** The first process of the namespaces: it waits for the harness, and reaps what is left by others. */
const init = ['sh', '-c', '"$@"; exit "$?"', 'sh'];

/**
 * The words that start a program in mount and PID namespaces of its own, which end with `unshare`: nothing in them reaches a
 * process or a mount of the machine.
 * @returns {string[] | null} null where they can't be had
 */
export function ownNamespaces() {
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-current-user'];
  const words = ['unshare', ...user, '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  return spawnSync('unshare', [...words.slice(1), 'true']).status === 0 ? words : null;
}

/** Whether this process runs in such namespaces, which the harness has made. */
export function isContained() {
  const outside = process.env[variable]?.split(' ') ?? [];
  return outside.length === 2 && here().every((each, index) => each !== outside[index]);
}

/**
 * Runs this program again, in namespaces of its own.
 * @returns its exit code; null where they can't be had
 */
export async function runContained() {
  const namespaces = ownNamespaces();
  if (namespaces === null) return null;
  const words = [...namespaces, ...init, process.execPath, ...process.argv.slice(1)];
  const child = spawn('unshare', words.slice(1), {
    env: { ...process.env, [variable]: here().join(' ') },
    stdio: 'inherit',
  });
  // What runs in the namespaces, and what is mounted there, ends with them.
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => child.kill('SIGKILL'));
  }
  return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 130)));
}
