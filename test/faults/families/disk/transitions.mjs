import { rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { checkDirectories } from '../../invariants.mjs';
import { ended, steps, submit, trySubmit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { SmallDisk } from '../../support/tmpfs.mjs';
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

/** A disk with free bytes and no free inode. */
export async function fullOfFiles(context) {
  const disk = SmallDisk.mount(context, 'size=64m,nr_inodes=60');
  if (disk === null) return;
  const server = await new Server(context, { dataDirectory: disk.data }).start();
  try {
    const inputs = Array.from({ length: 80 }, (_, at) => file(`${at}.nii`));
    for (let files = 0; files < 3; files += 1) {
      const { status, text } = await trySubmit(server, 'witness', 'infer', { inputs });
      context.count('a disk full of files');
      context.check(status === 507, `An upload on a disk full of files was answered with ${status}: ${text}`);
    }
    await checkDirectories(context, server);
    // Inodes for one or two files: too few for the directories of an upload.
    for (let left = 1; left <= 4; left += 1) {
      const made = [];
      try {
        for (;;) {
          const name = `${disk.directory}/ballast-${made.length}`;
          writeFileSync(name, '');
          made.push(name);
        }
      } catch {
        for (const name of made.slice(-left)) rmSync(name);
      }
      const { status, text } = await trySubmit(server, 'witness', 'infer', { inputs: file('scan.nii') });
      context.count('a disk full of files');
      context.check(
        status === 507,
        `An upload with place for ${left} files was answered with ${status}: ${text}`,
      );
      for (const name of made) rmSync(name, { force: true });
      await checkDirectories(context, server);
    }
    const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii') });
    const { status, error } = await ended(server, id);
    context.check(status === 'done', `A job after a disk full of files ended as ${status}: ${error}`);
  } finally {
    await server.close();
    disk.unmount();
  }
}
