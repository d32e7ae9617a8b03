import { counted } from '../../contract/index.js';
import type { RunningServer } from '../../server/serve.js';
import type { ServerLog } from './server-log.js';

/** Tells the admin on which cluster jobs run, and if it does not answer. */
export function sayCluster(
  { version, size, problem }: NonNullable<RunningServer['cluster']>,
  log: ServerLog,
): void {
  const found =
    size && `${counted(size.nodes, 'node')}, ${size.gpus === 0 ? 'no GPU' : counted(size.gpus, 'GPU')}`;
  log.say(`Jobs run on a Slurm cluster (${version})${found === null ? '' : `: ${found}`}.`);
  if (size?.gpus === 0) log.say('Jobs run on the CPU of its nodes.');
  if (problem === null) return;
  log.warn(`Slurm does not take jobs at the moment: ${problem}.`);
  log.warn('New jobs wait until it does; jobs that run go on.');
}
