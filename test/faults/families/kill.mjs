/** Kills of jobs whose runner, command or directory is damaged: each is answered in time and releases the job's devices. */
import { times } from '../context.mjs';
import { apps, Server } from '../support/server.mjs';
import { attacks } from './kill/attacks.mjs';
import { killCase } from './kill/kill-case.mjs';
import { killInPhases } from './kill/phases.mjs';
import { stopCase } from './kill/stop-case.mjs';

/** Cases that run at the same time, each on its own GPU. */
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
      // A GPU that was not released is not used again: the next case on it would fail for the same reason.
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
