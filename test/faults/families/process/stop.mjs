import { setTimeout as delay } from 'node:timers/promises';
import { isRunning } from '../../../support/processes.mjs';
import { FakeGpus } from '../../support/fake-gpus.mjs';
import { apps, Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

/** Milliseconds in which a server must end; half a second of them is reserve for a busy machine. */
const bound = 10_500;
const boundAtOnce = 1500;

/** Stops a server while something delays it: once, and in half of the cases a second time. */
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
      // A runner that may keep its job (--on-exit keep), and processes that a second signal left behind.
      if (isRunning(each.pid)) process.kill(each.pid, 'SIGKILL');
    }
  }
}
