import { setTimeout as delay } from 'node:timers/promises';
import { childrenOf } from '../../test/support/processes.mjs';
import { shellApp } from '../support/apps.mjs';
import { interleave } from '../support/interleave.mjs';
import { plus } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { residentMemory } from '../support/usage.mjs';

/** Milliseconds in which an idle server has started what it keeps. */
const settling = 2000;

/** MiB that a server with so many spare runners has resident, in all its processes; what these share counts in each. */
async function idle(workshop, app, spares) {
  const server = await Server.start(workshop, { apps: [app], flags: ['--spare-runners', String(spares)] });
  try {
    await delay(settling);
    const children = childrenOf(server.pid);
    if (children.length !== spares)
      throw new Error(`The server has ${children.length} children, not ${spares}`);
    return { memory: [server.pid, ...children].reduce((sum, pid) => sum + residentMemory(pid), 0) };
  } finally {
    await server.stop();
  }
}

async function measure({ workshop, rounds }) {
  const app = await shellApp(workshop, 'nothing', ':');
  const { figure, yardstick } = await interleave(rounds, {
    figure: () => idle(workshop, app, 1),
    yardstick: () => idle(workshop, app, 0),
  });
  return { figure: figure.memory, yardstick: yardstick.memory };
}

export const rows = [
  {
    name: 'memory-server-spare',
    what: 'memory of an idle server and its spare runner',
    yardstick: 'of a server without one',
    unit: 'MiB',
    reach: plus(96, 'MiB'),
    measure,
  },
];
