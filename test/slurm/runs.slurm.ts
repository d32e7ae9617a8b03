import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { linesOf } from '../support/log-lines.mjs';
import { cpuNodes } from '../support/slurm/configuration.mjs';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const withoutGpus = sharedCluster({ nodes: cpuNodes });
const inputs = file('ct.nii');

describe('a job on a cluster', () => {
  test('A job on a cluster gets one GPU if it asks for none, and its log begins with the node and the GPU', async () => {
    await using server = await slurm.serve();
    const { id, log, view } = await server.api.run('infer', { inputs });
    expect(view).toMatchObject({ status: 'done', error: null, queue_position: null, waiting_for: null });
    const { env, cwd } = await server.api.recorded(id);
    expect(env.CUDA_VISIBLE_DEVICES).toMatch(/^[01]$/);
    expect(cwd).toBe(`${server.jobDirectory(id)}/Workspace`);
    const { NodeList, TresPerNode } = await slurm.jobOf(id);
    expect([NodeList, env.SLURMD_NODENAME]).toEqual([env.SLURMD_NODENAME, expect.stringMatching(/^n[12]$/)]);
    expect(TresPerNode).toBe('gres:gpu:1');
    const lines = linesOf(log);
    const where = lines.findIndex((line) => line.startsWith('[remote-app] ') && line.includes(`${NodeList}`));
    expect(where).toBeGreaterThan(0);
    expect(where).toBeLessThan(lines.indexOf('probe infer'));
    const said = lines
      .slice(0, lines.indexOf('probe infer'))
      .filter((line) => /GPU/.test(line))
      .join('\n');
    expect(said).toContain(env.CUDA_VISIBLE_DEVICES);
    expect(lines.at(-1)).toBe('__DONE__');
  });

  test('A job on a cluster gets two GPUs of one node for gpu=0,1, which Slurm chooses', async () => {
    await using server = await slurm.serve();
    const { id, view } = await server.api.run('infer', { inputs, gpu: '0,1' });
    expect(view.status).toBe('done');
    const { env } = await server.api.recorded(id);
    expect(env.CUDA_VISIBLE_DEVICES).toBe('0,1');
    expect(await slurm.jobOf(id)).toMatchObject({ TresPerNode: 'gres:gpu:2', NumNodes: '1' });
  });

  test('A job on a cluster gets one GPU for gpu=1, whatever its number', async () => {
    await using server = await slurm.serve();
    const { id } = await server.api.run('infer', { inputs, gpu: '1' });
    expect((await server.api.recorded(id)).env.CUDA_VISIBLE_DEVICES).toMatch(/^[01]$/);
    expect(await slurm.jobOf(id)).toMatchObject({ TresPerNode: 'gres:gpu:1' });
  });

  test('A job on a cluster gets CPUs and no GPU for cpu=3', async () => {
    const dataDirectory = path.join(slurm.cluster.shared, 'long'.repeat(20));
    await using server = await slurm.serve({ dataDirectory });
    const { id, view } = await server.api.run('infer', { inputs, cpu: '3', ...steps('socket=') });
    expect(view).toMatchObject({ status: 'done', assigned_gpus: [], error: null });
    const { env, argv } = await server.api.recorded(id);
    expect(env.CUDA_VISIBLE_DEVICES).toBe('');
    // A short name for a directory of a long path, on the node and as long as the job runs.
    expect([env.TMPDIR, readdirSync('/tmp').filter((name) => name.endsWith(id))]).toEqual([
      `/tmp/remote-app-${id}`,
      [],
    ]);
    expect(argv.slice(argv.indexOf('--cpu'), argv.indexOf('--cpu') + 2)).toEqual(['--cpu', '3']);
    const told = await slurm.jobOf(id);
    expect([told['CPUs/Task'], told.TresPerNode ?? null]).toEqual(['3', null]);
  });

  test('A job on a cluster runs on the CPU if the cluster has no GPU', async () => {
    await using server = await withoutGpus.serve();
    const { id, view } = await server.api.run('infer', { inputs });
    expect(view.status).toBe('done');
    expect((await server.api.recorded(id)).env.CUDA_VISIBLE_DEVICES).toBe('');
    const [status, detail] = await server.api.refused('infer', { inputs, gpu: '0' });
    expect([status, detail]).toEqual([503, expect.stringMatching(/GPU/)]);
  });

  test('A job on a cluster that fails reports its exit code', async () => {
    await using server = await slurm.serve();
    const { view } = await server.api.run('infer', { inputs, ...steps('print=before', 'exit=7') });
    expect(view).toMatchObject({ status: 'error', error: 'Subprocess failed (exit code 7)' });
  });

  test('A job on a cluster is submitted to the partition with the limits and options that the admin sets', async () => {
    await using server = await slurm.serve({
      flags: [
        ...['--slurm-partition', 'short', '--slurm-time', '1', '--slurm-account', 'imaging'],
        ...['--slurm-arg=--nice=7', '--slurm-arg=--mem=321M'],
      ],
    });
    const { id, view } = await server.api.run('infer', { inputs });
    expect(view.status).toBe('done');
    expect(await slurm.jobOf(id)).toMatchObject({
      Partition: 'short',
      TimeLimit: '00:01:00',
      Account: 'imaging',
      Nice: '7',
      MinMemoryNode: '321M',
    });
  });

  test('A job on a cluster never gets a token of the server, and no submitted value is interpreted by a shell', async () => {
    const evil = '$(touch evil);`touch evil`" \'';
    await using server = await slurm.serve({
      token: 'a-secret-token',
      environment: { REMOTE_APP_TOKEN_X: 'x', SERVICE_API_TOKEN: 'a-secret-token' },
    });
    const { id, log } = await server.api.run('infer', {
      inputs: file(`${evil.replaceAll('/', '')}.nii`),
      ...steps(`print=${evil}`),
    });
    expect(linesOf(log)).toContain(evil);
    const { env, cwd } = await server.api.recorded(id);
    expect(Object.values(env).filter((value) => value.includes('a-secret-token'))).toEqual([]);
    expect(JSON.stringify(await slurm.jobOf(id))).not.toContain('a-secret-token');
    expect(cwd).toContain(id);
  });
});
