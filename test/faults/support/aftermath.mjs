import { file } from '../../support/form.mjs';
import { checkDirectories } from '../invariants.mjs';
import { isFinal, kill, listJobs, request, steps, trySubmit } from './api.mjs';
import { until, within } from './until.mjs';

/** Milliseconds in which /health must answer after an attack. */
const healthBound = 5000;

/** Checks that the server is still the same process and answers. */
export async function checkIsUp(context, server, pid, what) {
  const before = performance.now();
  try {
    await within(`/health answers`, request(server, '/health'), healthBound);
  } catch (cause) {
    await until('the server has ended', () => server.death !== null, 3000).catch(() => {});
    throw server.death === null ? cause : new Error(`it ended the server with ${server.death}`);
  }
  context.check(server.pid === pid, `${what} ended the server`);
  context.highest('slowest /health after an attack', performance.now() - before, 'ms');
}

/** Kills the active jobs. Returns the number of all jobs. */
export async function killAll(server) {
  const jobs = await listJobs(server);
  for (const view of jobs) if (!isFinal(view)) await kill(server, view.job_id);
  return jobs.length;
}

/** Checks that every directory belongs to a job, and that the server accepts as many jobs as its limit. */
export async function checkPlaces(context, server, places, what, app = 'witness') {
  await checkDirectories(context, server);
  await context.attempt(`Every place is free after ${what}`, async () => {
    for (let place = 1; place <= places; place += 1) {
      const form = { inputs: file('scan.nii'), options: steps({ gate: `${context.scratch}/never` }) };
      const isIn = async () => (await trySubmit(server, app, 'infer', form)).status === 200;
      await until(`place ${place} of ${places} can be had`, isIn, 10_000);
    }
  });
  await killAll(server);
}
