import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { ended, steps, submit } from '../../support/api.mjs';
import { endAll, tellsOfTheDisk, worksAgain } from './works-again.mjs';

/** More pages than a job needs from its start to its end: with this many it is done. */
const mostPages = 12;

/**
 * A waiting job begins on a disk that has so many pages left: each number lets it come one step further, so that
 * every write of its way is once the one that fails.
 */
async function withPages(context, server, disk, pages) {
  const gate = `${disk.directory}/gate-${pages}-`;
  const inputs = file('scan.nii');
  const first = await submit(server, 'witness', 'infer', { inputs, options: steps({ gate }) });
  const id = await submit(server, 'rogue', 'infer', { inputs, options: steps({ do: 'quick' }) });
  // The gate is an empty file, which takes no page.
  const empty = disk.fill(pages);
  writeFileSync(`${gate}1`, '');
  context.count('a disk full at a transition');
  await context.attempt(`A job on a disk of ${pages} pages`, async () => {
    // A job that cannot save its end waits for room, and gets it here.
    const all = Promise.all([ended(server, first), ended(server, id)]);
    await Promise.race([all, delay(1500)]);
    empty();
    for (const { status, error } of await all) {
      const isClear = status === 'done' || (status === 'error' && tellsOfTheDisk.test(error));
      context.check(isClear, `A job on a disk of ${pages} free pages ended as ${status}: ${error}`);
    }
  });
  empty();
  await endAll(server);
  await worksAgain(context, server, `a disk of ${pages} pages`);
}

export async function fullAtTransitions(context, server, disk) {
  const all = Array.from({ length: mostPages + 1 }, (_, pages) => pages);
  const chosen = context.rounds >= 10 ? all : context.random.shuffle(all).slice(0, context.rounds + 1);
  for (const pages of chosen) await withPages(context, server, disk, pages);
}
