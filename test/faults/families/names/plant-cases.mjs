import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { times } from '../../context.mjs';
import { apps, Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';
import { plantCase } from './plant-case.mjs';
import { mostHarmful, plants } from './plants.mjs';

const lanes = 3;
const grace = 4;

const begin = (context) =>
  new Server(context, { apps: [apps.planter], flags: ['--grace', String(grace)] }).start();

/** Some cases on one server, and the removal of their jobs, which must not follow a link either. */
async function onOneServer(context, home, cases) {
  const checks = [];
  let server = await begin(context);
  try {
    for (let next = cases.shift(); next !== undefined; next = cases.shift()) {
      const [what, make] = next;
      const check = await context.attempt(`A job where ${what}`, () =>
        plantCase(context, server, home, what, make),
      );
      if (check !== undefined) checks.push(check);
      // After a case the server may not answer or start: then the next case gets another one.
      if (check !== undefined && !server.hasEnded) continue;
      await server.kill();
      server = await begin(context);
    }
    // The family `removal` checks whether all of it can be removed.
    await until('the jobs are removed', () => server.jobDirectories().length === 0, (grace + 6) * 1000).catch(
      () => {},
    );
  } finally {
    await server.close();
    for (const check of checks) check();
  }
}

/** A full run takes all of them, a smaller one some. The server runs as root if the harness does, which is the worst case. */
export async function plantCases(context) {
  const home = path.join(context.scratch, 'planted');
  mkdirSync(home);
  const chosen = context.random.shuffle(plants).slice(0, Math.max(4, times(context.rounds, plants.length)));
  const cases = [...mostHarmful, ...chosen.filter((each) => !mostHarmful.includes(each))];
  await Promise.all(Array.from({ length: lanes }, () => onOneServer(context, home, cases)));
}
