import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';

const numbersIn = async (file) =>
  (await readFile(`/sys/fs/cgroup/${file}`, 'utf8').catch(() => '')).trim().split(/\s+/).map(Number);

/** How many processors this container may use, which may be fewer than there are. */
export async function usableProcessors() {
  const [[time, period], [oldTime], [oldPeriod]] = await Promise.all(
    ['cpu.max', 'cpu/cpu.cfs_quota_us', 'cpu/cpu.cfs_period_us'].map(numbersIn),
  );
  const quotas = [time / period, oldTime / oldPeriod].filter((quota) => quota > 0);
  return Math.max(1, Math.floor(Math.min(availableParallelism(), ...quotas)));
}
