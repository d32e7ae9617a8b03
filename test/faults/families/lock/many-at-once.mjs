import { file } from '../../../support/form.mjs';
import { ended, job, steps, submit } from '../../support/api.mjs';
import { settled, startersOf } from './starters.mjs';

/** Many starts at once, just after the last server was killed while a job of it keeps running. */
export async function manyAtOnce(context, count) {
  const [first] = startersOf(context, 1);
  const { dataDirectory } = first;
  await first.start();
  const options = steps({ lines: 40, pause: 0.1 });
  const id = await submit(first, 'witness', 'infer', { inputs: file('scan.nii'), options });
  await first.kill();
  const servers = startersOf(context, count, { dataDirectory });
  for (const each of servers) each.spawn();
  context.count('starts at once', count);
  try {
    const [up] = await settled(context, servers, `${count} starts at once after a kill`);
    if (up === undefined) return;
    const { status, error } = await ended(up, id);
    context.check(
      status === 'done',
      `The job that ran through ${count} starts at once became ${status}: ${error}`,
    );
    context.check((await job(up, id)).status === 'done', 'A job that was done is done no longer');
  } finally {
    for (const each of servers) await each.close();
  }
}
