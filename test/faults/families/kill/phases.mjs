import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { times } from '../../context.mjs';
import { checkProcesses } from '../../invariants.mjs';
import { ended, isFinal, job, steps, submit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { askKill, killBound } from './kill-case.mjs';

/** A short job with a large result, killed at a random moment: before, while or after it runs or is packed. */
async function killSomewhere(context, server) {
  const { random } = context;
  const options = steps({ lines: 3, pause: '0.05', noise: 20_000 });
  const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), options, cpu: '1' });
  await delay(random.integer(0, 1500));
  const before = await job(server, id);
  context.count(`a kill of a job that is ${before.status}`);
  const answers = await Promise.all([askKill(server, id), random.chance(0.3) ? askKill(server, id) : {}]);
  context.check(
    !answers.includes(null),
    `The kill of a job ${before.status} got no answer in ${killBound / 1000} s`,
  );
  const after = await job(server, id);
  context.check(isFinal(after), `A job ${before.status} is ${after.status} after its kill was answered`);
  if (isFinal(before))
    context.check(before.status === after.status, `A kill made ${before.status} ${after.status}`);
}

export async function killInPhases(context) {
  const server = await new Server(context, { flags: ['--cpu-slots', '2', '--grace', '600'] }).start();
  try {
    const kills = Array.from({ length: times(context.rounds, 12) }, () => killSomewhere(context, server));
    await Promise.all(kills);
    await checkProcesses(context, server);
    const form = { inputs: file('scan.nii'), cpu: '2' };
    const { status } = await ended(server, await submit(server, 'witness', 'infer', form), 20_000);
    context.check(status === 'done', `A job on both CPU slots, after the kills, is ${status}`);
  } finally {
    await server.close();
  }
}
