/** Outputs with difficult file names, and jobs that make links where the service reads and writes. */
import path from 'node:path';
import { times } from '../context.mjs';
import { apps, Server } from '../support/server.mjs';
import { unprivileged } from '../support/unprivileged.mjs';
import { carryCase } from './names/carry-case.mjs';
import { groups, randomNames } from './names/groups.mjs';
import { plantCases } from './names/plant-cases.mjs';

async function inLanes(context, count, all, runCase) {
  const left = [...all];
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const each = next;
      await context.attempt(each[0], () => runCase(each));
    }
  };
  await Promise.all(Array.from({ length: count }, lane));
}

export async function run(context) {
  const user = unprivileged(context);
  if (user === null)
    context.note('LEFT OUT: unreadable files, because the harness cannot run as another user than root here');
  const { home, launcher, environment } = user ?? { home: context.scratch, launcher: [] };
  const server = await new Server(context, {
    apps: [apps.planter],
    dataDirectory: path.join(home, 'data'),
    launcher,
    environment,
    flags: ['--grace', '600'],
  }).start();
  try {
    const more = Array.from({ length: times(context.rounds, 6) }, () => ['random names', randomNames]);
    const all = [...Object.entries(groups), ...more];
    await inLanes(context, 3, all, ([what, make]) => carryCase(context, server, home, what, make));
  } finally {
    await server.close();
  }
  await plantCases(context);
}
