import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import { usableProcessors } from '../../../src/cli/serve/processors.js';
import { plant, temporary } from '../../support/temporary.js';

test.for([
  ['none', {}, Number.POSITIVE_INFINITY],
  [
    'none of version 2',
    { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': 'max 100000' },
    Number.POSITIVE_INFINITY,
  ],
  ['of a container', { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': '150000 100000' }, 1.5],
  [
    'of a unit and of the slice above it',
    {
      'proc/self/cgroup': '0::/a.slice/b.service',
      'sys/fs/cgroup/a.slice/cpu.max': '100000 100000',
      'sys/fs/cgroup/a.slice/b.service/cpu.max': '300000 100000',
    },
    1,
  ],
  [
    'of version 1',
    {
      'proc/self/cgroup': '5:memory:/x\n4:cpu,cpuacct:/docker/x',
      'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '50000',
      'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '100000',
    },
    0.5,
  ],
  [
    'none of version 1',
    {
      'proc/self/cgroup': '4:cpu:/',
      'sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1',
      'sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000',
    },
    Number.POSITIVE_INFINITY,
  ],
] as const)('A processor quota is found: %s', async ([, files, quota]) => {
  await using root = await temporary();
  await plant(root.path, files);
  const usable = Math.max(1, Math.floor(Math.min(quota, availableParallelism())));
  expect(usableProcessors(root.path)).toBe(usable);
});
