import { describe, expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { processesOfJob } from '../support/processes.js';
import type { TestServer } from '../support/server.js';
import { whyNoAccounting } from '../support/slurm/accounting.mjs';
import { until } from '../support/until.mjs';
import { fakeProgram } from './support/fake-program.js';
import { type SlurmBench, sharedCluster } from './support/shared-cluster.js';

const inputs = file('ct.nii');
const endless = { inputs, ...steps('print=begun', 'shell=sleep 600') };
/** Jobs that have ended are forgotten as soon as Slurm does that at all. */
const forgetting = 'MinJobAge=2';

/** Ends a job while there is no server, waits until squeue does not know it any more, and tells how the next one does. */
async function endUnseen(
  slurm: SlurmBench,
  server: TestServer,
  end: (id: string, node: string) => unknown,
): Promise<string | null> {
  const id = await server.api.running('infer', endless, 'begun');
  const { JobId = '', NodeList = '' } = await slurm.jobOf(id);
  await server.crash();
  await end(JobId, NodeList);
  await until('Slurm forgets it', () => slurm.jobsOf(id).length === 0, 80_000, 500);
  await server.start();
  const { view } = await server.api.ended(id);
  expect([view.status, processesOfJob(id)]).toEqual(['error', []]);
  return view.error;
}

describe.skipIf(whyNoAccounting() !== null)('with accounting', () => {
  const slurm = sharedCluster({
    accounting: true,
    settings: [forgetting, 'AccountingStorageEnforce=associations,limits,qos'],
  });
  const manage = (...words: string[]) => slurm.cluster.output(['sacctmgr', '--immediate', ...words]);

  test('An account that does not exist is refused at the start', async () => {
    manage('add', 'account', 'imaging');
    manage('add', 'user', 'root', 'account=imaging');
    await expect(slurm.serve({ flags: ['--slurm-account', 'nope'] })).rejects.toThrow(/account/i);
    await using server = await slurm.serve({ flags: ['--slurm-account', 'imaging'] });
    expect((await server.api.run('infer', { inputs })).view.status).toBe('done');
  });

  test('With accounting, jobs over the submission limit wait for it, and all of them run', async () => {
    manage('modify', 'user', 'root', 'set', 'MaxSubmitJobs=2');
    await using server = await slurm.serve({ flags: ['--slurm-account', 'imaging'] });
    const gate = server.gate();
    const form = { inputs, ...steps(`wait=${gate.path}`) };
    const ids: string[] = [];
    for (let count = 0; count < 5; count += 1) ids.push((await server.api.accepted('infer', form)).job_id);
    await until('the first of them says for what it waits', async () =>
      /AssocMaxSubmitJobLimit/.test((await server.api.job(ids[2] ?? '')).waiting_for ?? ''),
    );
    // A start meanwhile does not stumble over the limit that the jobs have reached.
    await server.crash();
    await server.start();
    gate.open();
    for (const id of ids)
      expect((await server.api.ended(id)).view).toMatchObject({ status: 'done', error: null });
    manage('modify', 'user', 'root', 'set', 'MaxSubmitJobs=-1');
  });

  test('The end of a job that squeue has forgotten comes from sacct', async () => {
    await using server = await slurm.serve({ flags: ['--slurm-account', 'imaging'] });
    const error = await endUnseen(slurm, server, (id) => slurm.cluster.output(['scancel', id]));
    expect(error).toMatch(/cancelled/i);
  }, 150_000);
});

// Most of their time they wait for Slurm to forget. Each has a node of its own, since one of them makes its node fail.
describe.concurrent('without accounting', () => {
  const slurm = sharedCluster({ settings: [forgetting] });

  test('The end of a job that squeue has forgotten is reported as unknown, and the job is not run again', async () => {
    await using server = await slurm.serve({ flags: ['--slurm-arg=--nodelist=n1'] });
    const error = await endUnseen(slurm, server, (_, node) => slurm.cluster.failNode(node));
    expect(error).toMatch(/Slurm/);
  }, 150_000);

  test('An answer of sacct is used, if there is one, insofar as it describes an end', async () => {
    // What a real one prints of a job that ran out of memory.
    using sacct = fakeProgram('sacct', 'echo "OUT_OF_MEMORY|n2"');
    const environment = slurm.environment(sacct.directory);
    await using server = await slurm.serve({ flags: ['--slurm-arg=--nodelist=n2'], environment });
    const error = await endUnseen(slurm, server, (id) => slurm.cluster.output(['scancel', id]));
    expect(error).toMatch(/memory/i);
  }, 150_000);
});
