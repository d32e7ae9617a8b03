import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { kill, listJobs, steps, trySubmit } from '../../support/api.mjs';
import { HealthWatch } from '../../support/health-watch.mjs';

/** `--max-jobs` of the server. */
export const limit = 32;

/** At most 32 jobs are active, however many come at once; each place that is released can be used again. */
export async function fullServer(context, server) {
  const gate = path.join(context.scratch, 'never');
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const send = () => trySubmit(server, 'witness', 'infer', form);
  const watch = new HealthWatch(context, server);
  for (let round = 0; round < 2; round += 1) {
    const answers = await Promise.all(Array.from({ length: limit + 8 }, send));
    const accepted = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status === 429);
    context.count('submissions at the limit of active jobs', answers.length);
    context.check(
      accepted.length === limit,
      `${accepted.length} of ${answers.length} submissions were accepted`,
    );
    context.check(
      refused.length === 8,
      `${refused.length} of ${answers.length} submissions were told that it is busy`,
    );
    for (const { text, headers } of refused) {
      const isClear = /^\{"detail":"Server busy/.test(text) && Number(headers.get('retry-after')) > 0;
      context.check(isClear, `A server with ${limit} jobs answers ${text}`);
    }
    const active = (await listJobs(server)).filter(({ finished_at }) => finished_at === null);
    await Promise.all(active.map(({ job_id }) => kill(server, job_id)));
  }
  await watch.end();
}
