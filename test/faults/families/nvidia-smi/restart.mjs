import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { checkGpus, checkWitness } from '../../invariants.mjs';
import { ended, job, steps, submit } from '../../support/api.mjs';
import { FakeGpus } from '../../support/fake-gpus.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

/** Milliseconds in which a server must listen, whatever nvidia-smi does. */
const startBound = 15_000;

/** A server with a job on each of two GPUs and one that waits for each. */
async function withQueue(context, server, witness) {
  const gate = path.join(context.scratch, `gate-${context.serial()}-`);
  const jobs = [];
  for (const gpu of ['0', '1', '0', '1']) {
    const nonce = `nonce${context.serial()}`;
    const options = steps({ witness, nonce, gate });
    jobs.push({
      id: await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), gpu, options }),
      nonce,
    });
  }
  await until('two jobs run', async () => {
    const views = await Promise.all(jobs.slice(0, 2).map(({ id }) => job(server, id)));
    return views.every(({ status }) => status === 'running');
  });
  return { jobs, open: () => writeFileSync(`${gate}1`, '') };
}

/** The server dies with jobs that wait for a GPU, and is started again while nvidia-smi does not work. */
export async function restartsWhileFailing(context, mode) {
  const gpus = new FakeGpus(context, 2);
  const witness = path.join(context.scratch, `witness-${context.serial()}`);
  const server = await new Server(context, {
    environment: gpus.environment,
    flags: ['--grace', '600'],
  }).start();
  context.count('restarts while nvidia-smi fails');
  try {
    const { jobs, open } = await withQueue(context, server, witness);
    await server.kill();
    gpus.mode = mode;
    server.spawn();
    const before = performance.now();
    await server.listening(startBound);
    context.highest('longest start while nvidia-smi fails', performance.now() - before, 'ms');
    // The two running jobs end: jobs that wait for their GPUs must keep waiting, not fail.
    await until('nvidia-smi was asked', () => performance.now() - before > 1500);
    const views = await Promise.all(jobs.map(({ id }) => job(server, id)));
    for (const { job_id, status, error } of views) {
      const isLost = ['error', 'killed', 'done'].includes(status);
      context.check(
        !isLost,
        `With an nvidia-smi that is '${mode}' at a restart job ${job_id} became ${status}: ${error}`,
      );
    }
    await checkGpus(context, server);
    gpus.mode = 'ok';
    open();
    for (const { id } of jobs) {
      const { status, error } = await ended(server, id, 45_000);
      context.check(
        status === 'done',
        `Job ${id}, queued while nvidia-smi was '${mode}', ended as ${status}: ${error}`,
      );
      await checkGpus(context, server);
    }
    checkWitness(context, witness, jobs);
    await until(
      'a new GPU job is accepted',
      () => submit(server, 'witness', 'infer', { inputs: file('scan.nii'), gpu: '1' }).catch(() => null),
      30_000,
      500,
    );
  } finally {
    gpus.mode = 'ok';
    await server.close();
    gpus.clear();
  }
}
