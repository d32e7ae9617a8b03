import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { Turns } from '../../src/files/turns.js';

test('many may wait with one signal, which ends all their waits, and Node takes that for no leak', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  const turns = new Turns(1);
  const stop = new AbortController();
  const release = await turns.take(stop.signal);
  const waits = Array.from({ length: 20 }, () => turns.take(stop.signal));
  await nextTurn();
  expect(warnings).toEqual([]);
  stop.abort(new Error('stopped'));
  const outcomes = await Promise.allSettled(waits);
  expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['rejected']));
  release();
});
