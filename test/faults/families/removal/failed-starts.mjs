import { once } from 'node:events';
import { chmodSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { ended, submit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { giveAway } from '../../support/unprivileged.mjs';
import { within } from '../../support/until.mjs';

const endBound = 15_000;

/** Whether a start ends by itself, with a sentence and without having listened. */
async function isRefused(context, server, what) {
  server.mayEnd = true;
  const child = server.spawn();
  const exit = await within('it ends', once(child, 'exit'), endBound).catch(() => null);
  const isListening = /^Listening/m.test(server.stdout);
  if (exit === null)
    context.violation(`A start ${what} ${isListening ? 'listens' : 'does not end, nor listen'}`);
  else {
    const isClear = exit[0] !== 0 && server.stderr.replace(/^WARNING.*\n/gm, '').trim() !== '';
    context.check(isClear, `A start ${what} ended with ${exit[0]}: ${server.stderr}`);
    context.check(!/\n\s+at /.test(server.stderr), `A start ${what} showed a stack: ${server.stderr}`);
  }
  await server.kill();
}

/** A failed start leaves nothing locked; a second server on a directory does not harm the first. */
export async function failedStarts(context, user) {
  const home = path.join(user.home, 'failed-starts');
  mkdirSync(home);
  giveAway(home);
  const dataDirectory = path.join(home, 'data');
  const make = () =>
    new Server(context, { dataDirectory, launcher: user.launcher, environment: user.environment });
  const [first, second] = [make(), make()];
  await context.attempt('A failed start', async () => {
    await first.start();
    context.count('a second server on a directory', 2);
    for (const what of ['on the directory of another', 'on the directory of another, again']) {
      await isRefused(context, second, what);
    }
    const { status } = await ended(
      first,
      await submit(first, 'witness', 'infer', { inputs: file('scan.nii'), cpu: '1' }),
    );
    context.check(status === 'done', `A job of a server, after others tried its directory, is ${status}`);
    await first.kill();
    const jobs = path.join(dataDirectory, 'jobs');
    chmodSync(jobs, 0);
    context.count('a start that fails');
    await isRefused(context, second, "on a directory whose 'jobs' cannot be read");
    chmodSync(jobs, 0o700);
    await first.start();
  });
  await first.close();
}
