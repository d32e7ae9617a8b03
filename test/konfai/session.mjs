import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Workshop } from '../support/workshop.mjs';
import { runProgram } from './clients.mjs';
import { prepareEnvironment, programOf, Skipped } from './environment.mjs';

const maker = fileURLToPath(new URL('make.py', import.meta.url));

/** Progress and faults go to stderr; stdout has only the table. */
export const say = (text) => process.stderr.write(`${text}\n`);

/** What `make.py` makes: `root` holds the volumes, `app` is the directory of the app and its identifier. */
async function make(workshop) {
  const root = path.join(workshop.root, 'made');
  const { code, printed } = await runProgram(workshop, [programOf('python'), maker, root], workshop.root);
  if (code !== 0) throw new Error(`make.py: ${printed}`);
  return { workshop, root, app: path.join(root, 'Contrast') };
}

/**
 * Does something with KonfAI's programs, in a directory of its own that is gone afterwards, also after Ctrl-C. Where the
 * programs cannot be had it says why, and the process ends with 0.
 * @param name of the directory
 * @param work called with the workshop, and what `make.py` made in it
 */
export async function session(name, work, parent = undefined) {
  try {
    await prepareEnvironment(say);
  } catch (cause) {
    if (!(cause instanceof Skipped)) throw cause;
    say(`skipped: ${cause.message}`);
    return;
  }
  const workshop = await Workshop.open(name, parent);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.once(signal, async () => {
      await workshop.close();
      process.exit(130);
    });
  }
  try {
    await work(await make(workshop));
  } finally {
    await workshop.close();
  }
}
