import { setTimeout as delay } from 'node:timers/promises';
import { isRunning } from '../../../support/processes.mjs';
import { FakeGpus } from '../../support/fake-gpus.mjs';
import { apps, Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

/** Milliseconds in which a server is gone; the half second is the machine's. */
const bound = 10_500;
const boundAtOnce = 1500;

/** Stops a server that something holds: once, and half of the time a second time. */
export async function stops(context, what, { hold, flags = [] }) {
  const { random } = context;
  const isTwice = random.chance(0.4);
  const gpus = new FakeGpus(context, 1);
  const server = new Server(context, {
    apps: [apps.witness, apps.rogue],
    environment: gpus.environment,
    flags: ['--on-exit', random.pick(['kill', 'keep']), ...flags],
  });
  await server.start();
  context.count(isTwice ? 'stops, the second at once' : 'stops');
  const release = await hold(context, server, gpus);
  const { pid } = server;
  server.mayEnd = true;
  const signal = random.pick(['SIGTERM', 'SIGINT']);
  process.kill(pid, signal);
  const before = performance.now();
  try {
    if (isTwice) {
      await delay(200);
      if (isRunning(pid)) process.kill(pid, random.pick(['SIGTERM', 'SIGINT']));
    }
    const limit = isTwice ? boundAtOnce : bound;
    await until('it is gone', () => !isRunning(pid), limit).catch(() => {
      const asked = isTwice ? 'a second signal' : signal;
      context.violation(`${limit} ms after ${asked} a server is still there, held by ${what}`);
    });
    context.highest('longest stop', performance.now() - before, 'ms');
  } finally {
    await release?.();
    if (isRunning(pid)) process.kill(pid, 'SIGKILL');
    for (const each of [...server.processes(), ...gpus.processes()]) {
      // A runner that keeps its job, as it was told to, and what a second signal left behind.
      if (isRunning(each.pid)) process.kill(each.pid, 'SIGKILL');
    }
  }
}
