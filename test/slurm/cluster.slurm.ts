import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { argumentsOf, environmentOf, runningProcesses } from '../support/processes.mjs';
import { SlurmCluster } from '../support/slurm/cluster.mjs';
import { cpuNodes } from '../support/slurm/configuration.mjs';
import { until } from '../support/until.mjs';

/** All processes that name this directory in their arguments or their environment. */
const processesOf = (directory: string): number[] =>
  runningProcesses().filter((pid) =>
    [...argumentsOf(pid), ...environmentOf(pid)].some((word) => word.includes(directory)),
  );

const stateOf = (cluster: SlurmCluster, id: string): string =>
  /JobState=(\S+)/.exec(cluster.output(['scontrol', 'show', 'job', id]))?.[1] ?? '';

test('A cluster has GPUs that Slurm grants, and survives the death of its parts', async () => {
  await using cluster = await SlurmCluster.start();
  const submit = (...words: string[]): string =>
    cluster.output(['sbatch', '--parsable', `--chdir=${cluster.shared}`, '--output=%j', ...words]).trim();
  const output = (id: string): string => {
    const file = path.join(cluster.shared, id);
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  };

  const script = 'echo "$SLURMD_NODENAME $(cat /proc/sys/kernel/hostname) $CUDA_VISIBLE_DEVICES"; sleep 600';
  const jobs = [1, 2].map(() => submit('--gres=gpu:2', '--no-requeue', '--wrap', script));
  await until('both print', () => jobs.every((id) => output(id).includes('\n')));
  expect(jobs.map(output).toSorted()).toEqual(['n1 n1 0,1\n', 'n2 n2 0,1\n']);
  expect(cluster.output(['sinfo', '--noheader', '--Format=Gres,GresUsed']).trim()).toMatch(
    /^gpu:a100:2 +gpu:a100:2/,
  );

  await cluster.stopController();
  await cluster.startController();
  expect(jobs.map((id) => stateOf(cluster, id))).toEqual(['RUNNING', 'RUNNING']);

  const [onFirst = '', onSecond = ''] = jobs.toSorted((a, b) => output(a).localeCompare(output(b)));
  await cluster.killDaemon('n1');
  await cluster.startDaemon('n1');
  await cluster.failNode('n2');
  await until('n2 is missed', () => stateOf(cluster, onSecond) === 'NODE_FAIL');
  expect(stateOf(cluster, onFirst)).toBe('RUNNING');
  await cluster.startNode('n2');
  cluster.output(['scancel', onFirst]);
  await cluster.idle();
});

test('A cluster without GPUs leaves nothing behind', async () => {
  const cluster = await SlurmCluster.start({ nodes: cpuNodes });
  cluster.output(['sbatch', '--output=/dev/null', '--wrap', 'setsid sleep 600 & sleep 600']);
  await until('it runs', () => cluster.output(['squeue', '--noheader', '--format=%t']).startsWith('R'));
  expect(processesOf(cluster.directory).length).toBeGreaterThan(5);
  await cluster.stop();
  expect([existsSync(cluster.directory), processesOf(cluster.directory)]).toEqual([false, []]);
});

test.for(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
  'A cluster started by hand ends with %s',
  async (name) => {
    const script = fileURLToPath(new URL('cluster.mjs', import.meta.url));
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'ignore'] });
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk;
    });
    const [, directory = ''] = await until('it is up', () =>
      /^export SLURM_CONF=(.*)\/slurm.conf\n/.exec(said),
    );
    expect(processesOf(directory)).not.toEqual([]);
    child.kill(name);
    await until('nothing is left', () => processesOf(directory).length === 0);
    // A cluster that was killed cannot remove its directory.
    if (name === 'SIGKILL') await rm(directory, { recursive: true });
    else await until('its directory is gone', () => !existsSync(directory));
  },
);
