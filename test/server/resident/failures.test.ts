import { expect, test } from 'vitest';
import { TestServer } from '../../support/server.js';
import { doing, ownLines, writtenApp } from './support.js';

/** What a job of this app does is said by `--set do=NAME`. */
const program = `import { setTimeout as delay } from 'node:timers/promises';
import { serve } from './resident.mjs';

async function goOn() {
  for (let step = 0; ; step += 1) {
    await delay(20);
    console.log('goes on');
  }
}
const deeds = {
  nothing: () => {},
  both: () => Promise.all([goOn(), delay(50).then(() => process.exit(3))]),
  success: () => Promise.all([goOn(), delay(50).then(() => process.exit(0))]),
  throws: () => Promise.all([goOn(), delay(50).then(() => { throw new Error('wrong'); })]),
  timer: () => { setTimeout(() => process.exit(4), 50); return goOn(); },
  caught: () => { try { process.exit(5); } catch {} return goOn(); },
  exits: () => process.exit(3),
  signal: () => process.exit(143),
  rejects: () => { Promise.reject(new Error('nobody waits')); },
  late: async () => { setTimeout(() => { throw new Error('late'); }, 20); await delay(300); },
};
await serve(async () => {}, (_, words) => {
  console.log('begins');
  return deeds[words[words.indexOf('--set') + 1].slice('do='.length)]();
});`;

const reload = 'The app ends with this job, and is loaded again for the next one\n';

test('a job in JavaScript that fails is over before the next one begins, and ends alone if it can', async () => {
  await using own = await writtenApp('javascript', program);
  await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
  const { api } = server;
  for (const [deed, error, next] of [
    ['exits', 'Subprocess failed (exit code 3)', 'warm'],
    ['signal', 'Subprocess failed (exit code 143)', 'warm'],
    ['rejects', 'Subprocess failed (exit code 1)', 'warm'],
    ['late', 'Subprocess failed (exit code 1)', 'warm'],
    ['both', 'Subprocess failed (exit code 3)', 'cold'],
    ['success', null, 'cold'],
    ['throws', 'Subprocess failed (exit code 1)', 'cold'],
    ['timer', 'Subprocess failed (exit code 4)', 'cold'],
    ['caught', 'Subprocess failed (exit code 5)', 'cold'],
  ] as const) {
    const failed = await api.run('infer', doing(deed));
    expect.soft(failed.view, deed).toMatchObject({ status: error ? 'error' : 'done', error });
    expect.soft(failed.log.includes(reload), deed).toBe(next === 'cold');
    const after = await api.run('infer', doing());
    expect.soft(after.view, deed).toMatchObject({ status: 'done', start: next });
    expect.soft(ownLines(after.log), deed).toEqual(['begins', '__DONE__']);
  }
});
