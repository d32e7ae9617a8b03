import { file } from '../../../support/form.mjs';
import { ended, json, kill, listJobs, steps, submit } from '../../support/api.mjs';

/** The words of an error that the disk caused. */
export const tellsOfTheDisk = /disk|ENOSPC|no space/i;

/** The server answers, and with free room runs a job as usual. */
export async function worksAgain(context, server, after) {
  await context.attempt(`The server after ${after}`, async () => {
    const { status } = await json(server, '/health');
    context.check(status === 'ok', `/health says ${status} after ${after}`);
    const form = { inputs: file('scan.nii'), options: steps({ do: 'quick' }) };
    const view = await ended(server, await submit(server, 'rogue', 'infer', form));
    context.check(view.status === 'done', `A job after ${after} ended as ${view.status}: ${view.error}`);
  });
}

/** Ends all active jobs, for the next case. */
export async function endAll(server) {
  const active = (await listJobs(server)).filter(({ finished_at }) => finished_at === null);
  await Promise.allSettled(active.map(({ job_id }) => kill(server, job_id)));
}
