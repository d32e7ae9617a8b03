import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { linesOf } from '../support/log-lines.mjs';
import { processesOfJob } from '../support/processes.js';
import type { TestServer } from '../support/server.js';
import { fakeProgram } from './support/fake-program.js';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const full = sharedCluster();
const inputs = file('ct.nii');
/** Says how often the command of a job ran. */
const counted = 'shell=echo ran >> count';

async function expectRanOnce(server: TestServer, id: string): Promise<void> {
  const { view } = await server.api.ended(id);
  expect(view).toMatchObject({ status: 'done', error: null });
  expect(String((await server.api.result(id)).get('count'))).toBe('ran\n');
  expect(slurm.jobsOf(id).length).toBe(1);
}

test.for([
  [
    'after Slurm took the job and before its id was noted',
    'said=$("$real" "$@"); kill -9 "$pid"; echo "$said"',
  ],
  ['before Slurm took the job', 'kill -9 "$pid"'],
  ['and Slurm took the job a moment later', 'kill -9 "$pid"; sleep 0.3; exec "$real" "$@"'],
] as const)('A server that is killed %s runs the job once', async ([, end]) => {
  // The server dies once the client has its answer: a submission that was not answered is another test's.
  const script = `pid=$(cat "$0.pid" 2>/dev/null) && rm "$0.pid" || exec "$real" "$@"
until [ -e "$0.answered" ]; do sleep 0.02; done
${end}`;
  using sbatch = fakeProgram('sbatch', script);
  await using server = await slurm.serve({ environment: slurm.environment(sbatch.directory) });
  writeFileSync(path.join(sbatch.directory, 'sbatch.pid'), String(server.pid));
  const { job_id: id } = await server.api.accepted('infer', { inputs, ...steps(counted, 'shell=sleep 2') });
  writeFileSync(path.join(sbatch.directory, 'sbatch.answered'), '');
  expect(await server.ended()).toBe('SIGKILL');
  await server.start();
  await expectRanOnce(server, id);
});

test('A server that is killed finds its jobs in every state, and runs none twice', async () => {
  await using server = await full.serve();
  const gate = server.gate();
  const hold = { inputs, gpu: '0,1', ...steps(counted, 'print=begun', `wait=${gate.path}`, 'print=over') };
  const running = [
    await server.api.running('infer', hold, 'begun'),
    await server.api.running('infer', hold, 'begun'),
  ];
  const { job_id: waiting } = await server.api.accepted('infer', { inputs, ...steps(counted) });
  const { job_id: forgotten } = await server.api.accepted('infer', { inputs, ...steps(counted) });
  for (const id of [waiting, forgotten]) await full.reaches(id, 'PENDING');
  const before = full.jobs().map(({ JobId }) => JobId);
  await server.crash();
  // What Slurm does with a job while there is no server.
  full.cluster.output(['scancel', (await full.jobOf(forgotten)).JobId ?? '']);
  await server.start();
  expect(server.stderr + server.stdout).toMatch(/Recovered 4 active/);
  for (const id of running) expect((await server.api.job(id)).status).toBe('running');
  expect((await server.api.ended(forgotten)).view).toMatchObject({
    status: 'error',
    error: expect.stringMatching(/cancel/i),
  });
  await server.crash();
  gate.open();
  for (const id of running) await full.reaches(id, 'COMPLETED');
  await server.start();
  for (const id of [...running, waiting]) {
    const { view, log } = await server.api.ended(id);
    expect(view.status).toBe('done');
    expect(String((await server.api.result(id)).get('count'))).toBe('ran\n');
    if (id !== waiting) expect(linesOf(log)).toEqual(expect.arrayContaining(['begun', 'over', '__DONE__']));
  }
  expect(full.jobs().map(({ JobId }) => JobId)).toEqual(before);
});

test('A server that stops gracefully leaves its jobs running, and the next one can kill them', async () => {
  await using server = await slurm.serve({ flags: ['--on-exit', 'keep'] });
  const id = await server.api.running(
    'infer',
    { inputs, ...steps('print=begun', 'wait=/nonexistent/gate') },
    'begun',
  );
  expect(await server.stop()).toBe(0);
  expect((await slurm.jobOf(id)).JobState).toBe('RUNNING');
  await server.start();
  expect((await server.api.kill(id)).status).toBe('killed');
  expect(processesOfJob(id)).toEqual([]);
  expect(JSON.parse(readFileSync(path.join(server.jobDirectory(id), 'job.json'), 'utf8'))).toBeTruthy();
});
