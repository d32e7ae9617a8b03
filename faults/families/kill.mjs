/** Kills of jobs whose runner, command or directory is in a bad way: each is answered in time and frees what it held. */
import { times } from '../context.mjs';
import { apps, Server } from '../support/server.mjs';
import { attacks } from './kill/attacks.mjs';
import { killCase } from './kill/kill-case.mjs';
import { killInPhases } from './kill/phases.mjs';
import { stopCase } from './kill/stop-case.mjs';

/** Cases side by side, each on a GPU of its own. */
const lanes = 4;

export async function run(context) {
  const { random } = context;
  const server = await new Server(context, {
    apps: [apps.rogue, apps.witness],
    gpus: lanes,
    flags: ['--grace', '600'],
  }).start();
  const all = Array.from({ length: times(context.rounds, 1) }, () =>
    random.shuffle([...Object.keys(attacks), ...Object.keys(attacks).slice(0, 2)]),
  ).flat();
  const lane = async (gpu) => {
    for (let next = all.shift(); next !== undefined; next = all.shift()) {
      const what = next;
      context.count(`a kill where ${what}`);
      // A GPU that is lost takes no further case: one that waits for it would say the same again.
      if (!(await context.attempt(`A kill where ${what}`, () => killCase(context, server, what, gpu))))
        return;
    }
  };
  try {
    await Promise.all(Array.from({ length: lanes }, (_, gpu) => lane(String(gpu))));
    await killInPhases(context);
  } finally {
    await server.close();
  }
  const stops = random.shuffle(Object.keys(attacks)).slice(0, times(context.rounds, 3));
  await Promise.all(stops.map((what) => stopCase(context, what)));
}
