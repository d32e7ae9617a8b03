import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { orElse } from '../../files/index.js';

/** The content of a kernel file; empty if it cannot be read. */
const read = (file: string): string => orElse(() => readFileSync(file, 'utf8').trim(), '');

/** A control group and all groups above it. Each may have a quota. */
function withParents(group: string): string[] {
  const names = group.split('/').filter(Boolean);
  return [...names.keys(), names.length].map((count) => names.slice(0, count).join('/'));
}

/** A quota in processors; infinite if there is none. */
function processors(quota: string | undefined, period: string | undefined): number {
  const [time, of] = [Number(quota), Number(period)];
  return time > 0 && of > 0 ? time / of : Number.POSITIVE_INFINITY;
}

/**
 * The smallest CPU quota that applies to this process, in processors, as set by containers and systemd units: `cpu.max` in
 * cgroups v2, `cpu.cfs_quota_us` in v1. Infinite if there is none.
 * @param root of the file system, for tests
 */
function processorQuota(root = '/'): number {
  const at = (...names: string[]) => read(path.join(root, ...names));
  const quotas = at('proc/self/cgroup')
    .split('\n')
    .flatMap((line) => {
      const [, kinds = '', group = ''] = line.split(':');
      if (kinds === '') {
        return withParents(group).map((each) => {
          const [quota, period] = at('sys/fs/cgroup', each, 'cpu.max').split(/\s+/);
          return processors(quota, period);
        });
      }
      if (!kinds.split(',').includes('cpu')) return [];
      // In a container, the group may be listed under its name outside; its quota is then found at the top.
      return withParents(group).flatMap((each) =>
        [kinds, 'cpu'].map((kind) => {
          const place = ['sys/fs/cgroup', kind, each];
          return processors(at(...place, 'cpu.cfs_quota_us'), at(...place, 'cpu.cfs_period_us'));
        }),
      );
    });
  return Math.min(Number.POSITIVE_INFINITY, ...quotas);
}

/** The number of processors that this process may use at once, rounded down, at least 1. */
export const usableProcessors = (root = '/'): number =>
  Math.max(1, Math.floor(Math.min(availableParallelism(), processorQuota(root))));
