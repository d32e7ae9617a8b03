import { file } from '../../../support/form.mjs';
import { ended, json, kill, listJobs, steps, submit } from '../../support/api.mjs';

/** What an error that is the disk's fault must say. */
export const tellsOfTheDisk = /disk|ENOSPC|no space/i;

/** The server answers, and with room there is does a job as ever. */
export async function worksAgain(context, server, after) {
  await context.attempt(`The server after ${after}`, async () => {
    const { status } = await json(server, '/health');
    context.check(status === 'ok', `/health says ${status} after ${after}`);
    const form = { inputs: file('scan.nii'), options: steps({ do: 'quick' }) };
    const view = await ended(server, await submit(server, 'rogue', 'infer', form));
    context.check(view.status === 'done', `A job after ${after} ended as ${view.status}: ${view.error}`);
  });
}

/** Ends whatever goes on, for the next case. */
export async function endAll(server) {
  const active = (await listJobs(server)).filter(({ finished_at }) => finished_at === null);
  await Promise.allSettled(active.map(({ job_id }) => kill(server, job_id)));
}
