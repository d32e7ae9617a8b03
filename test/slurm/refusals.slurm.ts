import { mkdtempSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { file } from '../../support/form.mjs';
import { Cli } from '../support/cli.js';
import { apps } from '../support/server.js';
import { fakeProgram } from './support/fake-program.js';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const inputs = file('ct.nii');

const check = async (cli: Cli, env: Record<string, string>, ...flags: string[]) => {
  const data = mkdtempSync(path.join(slurm.cluster.shared, 'data-'));
  const words = ['serve', '--port', '0', '--data-dir', data, '--apps', apps.probe, '--sandbox', 'off'];
  return cli.run([...words, '--executor', 'slurm', ...flags], env);
};

test('a partition that does not exist is refused at the start and by --check, with those that there are', async () => {
  await using cli = await Cli.create();
  const env = slurm.environment();
  const started = await check(cli, env, '--slurm-partition', 'nope');
  expect([started.code, started.stderr]).toEqual([2, expect.stringMatching(/'nope'[\s\S]*main/)]);
  const checked = await check(cli, env, '--slurm-partition', 'nope', '--check');
  expect([checked.code, checked.stdout + checked.stderr]).toEqual([
    2,
    expect.stringMatching(/'nope'[\s\S]*main/),
  ]);
  const well = await check(cli, env, '--slurm-partition', 'main', '--check');
  expect([well.code, well.stdout], well.stderr).toEqual([0, expect.stringMatching(/ok +.*Slurm/i)]);
});

test('a machine without Slurm is refused, with what to install', async () => {
  await using cli = await Cli.create();
  const { code, stderr } = await check(cli, { PATH: path.dirname(process.execPath) });
  expect([code, stderr]).toEqual([2, expect.stringMatching(/sbatch|Slurm/)]);
  expect(stderr).not.toMatch(/ENOENT| at /);
});

test('a flag of Slurm without its executor is refused', async () => {
  await using cli = await Cli.create();
  const words = [
    'serve',
    '--port',
    '0',
    '--data-dir',
    'data',
    '--apps',
    apps.probe,
    '--slurm-partition',
    'main',
  ];
  const { code, stderr } = await cli.run(words, slurm.environment());
  expect([code, stderr]).toEqual([2, expect.stringContaining('--executor')]);
});

test('a job that sbatch refuses ends with the sentence of Slurm, and the next one runs', async () => {
  await using server = await slurm.serve({ flags: ['--slurm-arg=--nodelist=n9'] });
  const { view, log } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/n9|[Nn]ode/) });
  expect(log).toContain(`data: __ERROR__ ${view.error}\n\n`);
  expect(slurm.jobsOf(view.job_id)).toEqual([]);
});

test('a sbatch that refuses once says why, and does not hold the next job up', async () => {
  const said = 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy';
  const script = `if [ -e "$0.refused" ]; then exec "$real" "$@"; fi\n: > "$0.refused"; echo "${said}" >&2; exit 1`;
  using sbatch = fakeProgram('sbatch', script);
  await using server = await slurm.serve({ environment: slurm.environment(sbatch.directory) });
  const { view } = await server.api.run('infer', { inputs });
  if (view.status === 'error') expect(view.error).toContain('Job violates accounting/QOS policy');
  expect((await server.api.run('infer', { inputs })).view.status).toBe('done');
});

test('a sbatch whose answer is no number is not believed', async () => {
  using sbatch = fakeProgram('sbatch', 'echo "Submitted; rm -rf / $(touch /tmp/evil)"');
  await using server = await slurm.serve({ environment: slurm.environment(sbatch.directory) });
  const { view } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/sbatch/) });
});
