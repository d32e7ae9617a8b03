import { file } from '../../../support/form.mjs';
import { ended, request, steps, submit } from '../../support/api.mjs';
import { until } from '../../support/until.mjs';

/** A job that is done, with a result of so many KiB. */
export async function doneJob(context, server, noise = 0) {
  const content = context.random.word(20);
  const options = steps({ lines: 1, noise });
  const id = await submit(server, 'witness', 'infer', {
    inputs: file('scan.nii', content),
    options,
    cpu: '1',
  });
  await ended(server, id);
  return { id, content, noise };
}

/** Waits for the removal of a job; returns the milliseconds since `since`, or null if it is not removed. */
export async function removal(server, id, since, limit) {
  const isRemoved = async () => (await request(server, `/jobs/${id}`)).status === 410;
  const found = await until('it is removed', isRemoved, limit, 50).catch(() => null);
  return found && performance.now() - since;
}
