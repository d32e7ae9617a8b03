import path from 'node:path';
import { expect, test } from 'vitest';
import { ResidentWorker } from '../../support/resident-worker.mjs';
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

test('A failed job in JavaScript is over before the next one begins, and is the last one if it keeps running', async () => {
  await using own = await writtenApp('javascript', program);
  const command = ['node', path.join(own.app, 'main.mjs'), 'resident', own.app, '--cpu', '1'];
  const job = '0123456789ab';
  for (const [deed, code] of [
    ['both', 3],
    ['success', 0],
    ['throws', 1],
    ['timer', 4],
    ['caught', 5],
  ] as const) {
    await using worker = new ResidentWorker(command);
    expect(await worker.answer()).toEqual({ ready: true });
    for (const [before, failed] of [
      ['exits', 3],
      ['signal', 143],
      ['rejects', 1],
      ['late', 1],
    ] as const) {
      if (deed !== 'both') break;
      const { answer } = await worker.run(['infer', '--set', `do=${before}`], { job });
      expect.soft(answer, before).toEqual({ job, exit_code: failed });
      const next = await worker.run(['infer', '--set', 'do=nothing'], { job });
      expect.soft(next, before).toMatchObject({ answer: { job, exit_code: 0 }, log: 'begins\n' });
    }
    const { answer } = await worker.run(['infer', '--set', `do=${deed}`], { job });
    expect.soft(answer, deed).toEqual({ job, exit_code: code, last: true });
    expect.soft(await worker.end(), deed).toBe(0);
  }
});

test('An app that exits with its job is reloaded for the next one, which gets none of its lines', async () => {
  await using own = await writtenApp('javascript', program);
  await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
  const { api } = server;
  const failed = await api.run('infer', doing('both'));
  expect(failed.view).toMatchObject({ status: 'error', error: 'Subprocess failed (exit code 3)' });
  expect(failed.log).toContain('The app ends with this job, and is loaded again for the next one\n');
  const after = await api.run('infer', doing());
  expect(after.view).toMatchObject({ status: 'done', start: 'cold' });
  expect(ownLines(after.log)).toEqual(['begins', '__DONE__']);
});
