import { mkdtempSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { file } from '../support/form.mjs';
import { apps } from '../support/server.js';
import { fakeProgram } from './support/fake-program.js';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const inputs = file('ct.nii');

const check = async (cli: Cli, env: Record<string, string>, ...flags: string[]) => {
  const data = mkdtempSync(path.join(slurm.cluster.shared, 'data-'));
  const words = ['serve', '--port', '0', '--data-dir', data, '--apps', apps.probe, '--sandbox', 'off'];
  return cli.runProcess([...words, '--executor', 'slurm', ...flags], env);
};

test('A partition that does not exist is refused at startup and by --check, with a list of the existing ones', async () => {
  await using cli = await Cli.create();
  const env = slurm.environment();
  const started = await check(cli, env, '--slurm-partition', 'nope');
  expect([started.code, started.stderr]).toEqual([2, expect.stringMatching(/partition nope\b/)]);
  const checked = await check(cli, env, '--slurm-partition', 'nope', '--check');
  expect([checked.code, checked.stdout + checked.stderr]).toEqual([
    2,
    expect.stringMatching(/partition nope\b/),
  ]);
  const well = await check(cli, env, '--slurm-partition', 'main', '--check');
  expect([well.code, well.stdout], well.stderr).toEqual([0, expect.stringMatching(/ok +.*Slurm/i)]);
});

test('A machine without Slurm is refused, with advice on what to install', async () => {
  await using cli = await Cli.create();
  const { code, stderr } = await check(cli, { PATH: cli.directory });
  expect([code, stderr]).toEqual([2, expect.stringMatching(/sbatch|Slurm/)]);
  expect(stderr).not.toMatch(/ENOENT| at /);
});

test('A Slurm flag without the Slurm executor is refused', async () => {
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
  const { code, stderr } = await cli.runProcess(words, slurm.environment());
  expect([code, stderr]).toEqual([2, expect.stringContaining('--executor')]);
});

/** A sbatch that refuses once what is no question whether it would. */
const refusingOnce = (...said: string[]): string => `
case "$*" in *remote-app-*) ;; *) exec "$real" "$@" ;; esac
test -e "$0.refused" && exec "$real" "$@"
: > "$0.refused"
cat >/dev/null
${said.map((line) => `echo '${line}' >&2`).join('\n')}
exit 1`;

test("A job that sbatch refuses ends with Slurm's message, and the next one runs", async () => {
  const words = 'Job violates accounting/QOS policy (job submit limit, user size and/or time limits)';
  using sbatch = fakeProgram(
    'sbatch',
    refusingOnce(
      'sbatch: error: QOSMaxWallDurationPerJobLimit',
      `sbatch: error: Batch job submission failed: ${words}`,
    ),
  );
  await using server = await slurm.serve({ environment: slurm.environment(sbatch.directory) });
  const { view, log } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'error', error: expect.stringContaining(words) });
  expect(log).toContain(`data: __ERROR__ ${view.error}\n\n`);
  expect(slurm.jobsOf(view.job_id)).toEqual([]);
  expect((await server.api.run('infer', { inputs })).view.status).toBe('done');
});

test('A job that Slurm cannot accept at the moment waits, and runs later', async () => {
  const words = 'sbatch: error: Batch job submission failed: Resource temporarily unavailable';
  using sbatch = fakeProgram('sbatch', refusingOnce(words));
  await using server = await slurm.serve({ environment: slurm.environment(sbatch.directory) });
  const { view } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'done', error: null });
});

test('An answer of sbatch without a job number ends the job', async () => {
  const script =
    'case "$*" in *remote-app-*) cat >/dev/null; echo "Submitted; $(id)" ;; *) exec "$real" "$@" ;; esac';
  using sbatch = fakeProgram('sbatch', script);
  await using server = await slurm.serve({ environment: slurm.environment(sbatch.directory) });
  const { view } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/sbatch/) });
  expect(view.error).not.toContain('NaN');
});

test('A server is started again while the partition is down, and its jobs wait', async () => {
  await using server = await slurm.serve({ flags: ['--slurm-partition', 'main'] });
  slurm.cluster.output(['scontrol', 'update', 'PartitionName=main', 'State=DOWN']);
  const { job_id: id } = await server.api.accepted('infer', { inputs });
  await server.api.reaches(id, 'waiting');
  await server.crash();
  await server.start();
  slurm.cluster.output(['scontrol', 'update', 'PartitionName=main', 'State=UP']);
  expect((await server.api.ended(id)).view).toMatchObject({ status: 'done', error: null });
});

test('A server is started again while every node is drained, and its jobs wait', async () => {
  await using server = await slurm.serve();
  for (const node of ['n1', 'n2']) {
    slurm.cluster.output(['scontrol', 'update', `NodeName=${node}`, 'State=DRAIN', 'Reason=maintenance']);
  }
  const { job_id: id } = await server.api.accepted('infer', { inputs });
  await server.api.reaches(id, 'waiting');
  await server.crash();
  await server.start();
  for (const node of ['n1', 'n2'])
    slurm.cluster.output(['scontrol', 'update', `NodeName=${node}`, 'State=RESUME']);
  expect((await server.api.ended(id)).view).toMatchObject({ status: 'done', error: null });
});
