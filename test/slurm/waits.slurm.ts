import { expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { until } from '../support/until.mjs';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const inputs = file('ct.nii');

test("A waiting job reports Slurm's reason and its position until it runs", async () => {
  await using server = await slurm.serve();
  const release = await slurm.fill();
  const ids: string[] = [];
  for (let count = 0; count < 3; count += 1) {
    const { job_id: id } = await server.api.accepted('infer', { inputs });
    ids.push(id);
    await server.api.reaches(id, 'waiting');
  }
  const [first = '', second = '', third = ''] = ids;
  await until('all tell their positions', async () => {
    const views = await Promise.all(ids.map((id) => server.api.job(id)));
    return JSON.stringify(views.map((view) => view.queue_position)) === '[1,2,3]';
  });
  await until('the first tells the reason', async () =>
    (await server.api.job(first)).waiting_for?.includes('Resources'),
  );
  expect((await server.api.job(second)).waiting_for).toMatch(/Priority|Resources/);
  expect((await server.api.kill(second)).status).toBe('killed');
  await until('the third moves up', async () => (await server.api.job(third)).queue_position === 2);

  slurm.cluster.output(['scontrol', 'hold', (await slurm.jobOf(third)).JobId ?? '']);
  await until('it says that it is held', async () =>
    /JobHeld/.test((await server.api.job(third)).waiting_for ?? ''),
  );
  slurm.cluster.output(['scontrol', 'release', (await slurm.jobOf(third)).JobId ?? '']);
  release();
  for (const id of [first, third]) {
    const { view, log } = await server.api.ended(id);
    expect(view).toMatchObject({ status: 'done', queue_position: null, waiting_for: null });
    expect(log).toMatch(/Resources|Priority/);
  }
});

test('A line of a job arrives in less than a second', async () => {
  await using server = await slurm.serve();
  const step = 'date +%s%3N; for i in 1 2 3 4 5; do sleep 0.7; date +%s%3N; done';
  const { job_id: id } = await server.api.accepted('infer', { inputs, ...steps(`shell=${step}`) });
  await using log = await server.api.follow(id);
  const delays = new Map<string, number>();
  await until('the last line comes', () => {
    for (const line of log.lines) {
      if (/^\d{13}$/.test(line) && !delays.has(line)) delays.set(line, Date.now() - Number(line));
    }
    return log.lines.includes('__DONE__');
  });
  expect(delays.size).toBe(6);
  expect(Math.max(...delays.values())).toBeLessThan(1000);
});
