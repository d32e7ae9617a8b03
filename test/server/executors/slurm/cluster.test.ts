import { expect, test } from 'vitest';
import { Cluster } from '../../../../src/server/executors/slurm/cluster.js';

const widths = [128, 128, 32, 16, 512, 512, 32, 16];
const line = (...cells: string[]) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('');
const answer = [
  line(
    'n10',
    'gpu*',
    'idle',
    '8',
    'gpu:a100:1,gpu:h100:1,shard:8',
    'gpu:a100:0,gpu:h100:1,shard:0',
    '1-00:00:00',
    '64000',
  ),
  line('n2', 'gpu*', 'mixed', '32', 'gpu:a100:2(S:0-1)', 'gpu:a100:1(IDX:0)', '2:00:00', '32000'),
  line('n3', 'gpu*', 'draining', '4', 'gpu:1', 'gpu:0', '2:00:00', '1'),
  ...['down*', 'drained', 'maint', 'idle*'].map((state, at) =>
    line(`n${at + 11}`, 'gpu*', state, '4', 'gpu:1', 'gpu:0', ''),
  ),
  line('n2', 'other', 'idle', '32', 'gpu:a100:2(S:0-1)', 'gpu:a100:1(IDX:0)', '2:00:00'),
  line('n4', 'other', 'idle', '64', 'gpu:h100:8', 'gpu:h100:0', 'infinite'),
].join('\n');

/** A cluster that sinfo tells of like this, and the words that it was called with. */
function clusterOf(tell: () => string, partition: string | null = null) {
  const calls: (readonly string[])[] = [];
  const cluster = new Cluster(partition, async (words) => {
    calls.push(words);
    return tell();
  });
  return { cluster, calls };
}

test('The GPUs of a cluster are those of the nodes that jobs may use, and are free if a job could get them', async () => {
  const { cluster, calls } = clusterOf(() => answer);
  expect(await cluster.devices()).toEqual([
    { id: 0, name: 'a100 on n2', isFree: false, node: 'n2' },
    { id: 1, name: 'a100 on n2', isFree: true, node: 'n2' },
    { id: 2, name: 'GPU on n3', isFree: false, node: 'n3' },
    { id: 3, name: 'a100 on n10', isFree: true, node: 'n10' },
    { id: 4, name: 'h100 on n10', isFree: false, node: 'n10' },
    ...[11, 12, 13, 14].map((n) => ({ id: n - 6, name: `GPU on n${n}`, isFree: false, node: `n${n}` })),
  ]);
  expect([cluster.largest, cluster.maxMinutes]).toEqual([
    { gpus: 2, cpus: 32, memory: 64_000 * 2 ** 20 },
    1440,
  ]);
  // What was just told is not asked for again.
  await Promise.all([cluster.devices(), cluster.refresh()]);
  expect(calls).toHaveLength(1);
  expect(calls[0]?.slice(0, 2)).toEqual(['--Node', '--noheader']);
  const other = clusterOf(() => answer, 'other');
  await other.cluster.refresh();
  expect(other.calls[0]?.at(-1)).toBe('--partition=other');
});

test('A job may request as many GPUs as one node has, and more are refused', async () => {
  const { cluster } = clusterOf(() => answer);
  const asked = (...gpus: number[]) => ({ gpus, isCpu: false, workers: 1 });
  // As long as nobody knows, the job waits until somebody does.
  expect(cluster.check(asked(7))).toEqual({ kind: 'gpus', ids: [7] });
  expect([cluster.largest, cluster.maxMinutes]).toEqual([{ gpus: 0, cpus: 1, memory: null }, null]);
  await cluster.refresh();
  expect(cluster.check(asked(0, 3))).toEqual({ kind: 'gpus', ids: [0, 3] });
  expect(() => cluster.check(asked(0, 1, 3))).toThrow(
    '3 GPUs are more than any node of the cluster has: 2; a job runs on one node',
  );
  expect(() => cluster.check(asked(9))).toThrow('Unknown GPU id(s): 9; this server has: 0, 1, 2, 3, 4, 5');
});

test('Without an answer from Slurm the GPUs are unknown, and the reason is given', async () => {
  const { cluster } = clusterOf(() => {
    throw new Error('Unable to contact slurm controller');
  });
  expect(cluster.problem).toBe('Slurm has not been asked yet');
  await expect(cluster.devices()).rejects.toThrow(
    'The GPUs of this server are not known: Slurm does not answer (Unable to contact slurm controller); try again later',
  );
  expect([cluster.nodes, cluster.problem]).toEqual([null, 'Unable to contact slurm controller']);
});
