import { renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { addressIn } from '../../../support/serve.mjs';
import { ended, kill, request, steps, submit } from '../../support/api.mjs';
import { isUp, settled, startersOf } from './starters.mjs';

/** Milliseconds after which two servers must not both work any more, after an admin removed the lock. */
const overlap = 15_000;

const answers = (server) =>
  request(server, '/health', { limit: 2000 }).then(
    () => true,
    () => false,
  );

/** Something is done to the lock while its server works; then another is started. */
async function whileOneWorks(context, what, meddle) {
  const [first, second] = startersOf(context, 2);
  await first.start();
  try {
    meddle(path.join(first.dataDirectory, 'serve.lock'));
    second.spawn();
    const deadline = performance.now() + overlap;
    for (;;) {
      const isDecided = isUp(second) !== isUp(first) && (isUp(second) || !second.isAlive);
      if (isDecided || performance.now() > deadline) break;
      await delay(100);
    }
    second.url = addressIn(second.stdout) ?? '';
    const both = isUp(first) && isUp(second) && (await answers(first)) && (await answers(second));
    context.check(!both, `Two servers work on one data directory after ${what}`);
    context.check(isUp(first) || isUp(second), `No server works on the data directory after ${what}`);
  } finally {
    await second.close();
    await first.close();
  }
}

/** The server is killed and its job's runner survives; a start directly afterwards must work, and find the job. */
async function runnerOutlives(context) {
  const [first] = startersOf(context, 1, { flags: ['--on-exit', 'keep'] });
  const { dataDirectory } = first;
  await first.start();
  const options = steps({ lines: 20, pause: 0.2 });
  const id = await submit(first, 'witness', 'infer', { inputs: file('scan.nii'), options });
  await (context.random.chance(0.5) ? first.kill() : first.stop());
  const [next] = startersOf(context, 1, { dataDirectory });
  next.spawn();
  try {
    const [up] = await settled(context, [next], 'a runner outlives its server');
    if (up === undefined) return;
    const { status } = await ended(up, id);
    context.check(status === 'done', `A job whose server was followed by another became ${status}`);
  } finally {
    await next.close();
  }
}

/** A server that is killed and started again at once, several times. */
async function killed(context) {
  const [server] = startersOf(context, 1);
  await server.start();
  const id = await submit(server, 'witness', 'infer', {
    inputs: file('scan.nii'),
    options: steps({ gate: `${context.scratch}/never` }),
  });
  try {
    for (let count = 0; count < 3; count += 1) {
      await server.kill();
      server.spawn();
      const before = performance.now();
      await server.listening(20_000);
      context.highest('longest start after a kill', performance.now() - before, 'ms');
    }
    await kill(server, id);
  } finally {
    await server.close();
  }
}

export const taken = {
  'the lock was removed': (context) =>
    whileOneWorks(context, 'the lock was removed', (lock) => rmSync(lock, { recursive: true, force: true })),
  'the lock was emptied': (context) =>
    whileOneWorks(context, 'the lock was emptied', (lock) => writeFileSync(lock, '')),
  'the lock was replaced': (context) =>
    whileOneWorks(context, 'the lock was replaced', (lock) => {
      writeFileSync(`${lock}.other`, '{}');
      renameSync(`${lock}.other`, lock);
    }),
  'a runner outlived its server': runnerOutlives,
  'a kill': killed,
};
