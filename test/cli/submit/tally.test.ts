import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Tally } from '../../../src/cli/submit/cohort-view.js';
import type { CaseState, CaseStatus } from '../../../src/client/cohort/index.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

const stateOf = (index: number, status: CaseStatus): CaseState => ({
  ...{
    name: `case ${index}`,
    subject: null,
    session: null,
    status,
    reason: null,
    version: null,
    seconds: null,
  },
  ...{ jobId: null, isNew: status === 'done', edited: [], numbers: {} },
});

test('The time that is left is that of cases which are computed together, and end together', () => {
  const tally = new Tally();
  tally.begin(Array.from({ length: 12 }, (_, index) => stateOf(index, 'waiting')));
  const together = 4;
  for (let first = 0; first < 8; first += together) {
    const indexes = Array.from({ length: together }, (_, at) => first + at);
    for (const index of indexes) tally.saw(stateOf(index, 'running'));
    vi.advanceTimersByTime(60_000);
    for (const index of indexes) {
      tally.saw(stateOf(index, 'done'));
      // Eleven are left: three that are about to end, and two times four.
      if (index === 0) expect(tally.left).toBe('3 min');
    }
  }
  expect(tally.left).toBe('1 min');
  expect(tally.line).toBe('8 of 12 done, 0 in progress, 4 waiting; about 1 min left');
});

test('What is not computed now tells nothing of the time that is left, and is not left', () => {
  const tally = new Tally();
  tally.begin([
    { ...stateOf(0, 'done'), isNew: false },
    ...[1, 2, 3].map((index) => stateOf(index, 'waiting')),
  ]);
  tally.saw(stateOf(1, 'running'));
  vi.advanceTimersByTime(60_000);
  // Found done, of an earlier command.
  tally.saw({ ...stateOf(2, 'done'), isNew: false });
  expect(tally.left).toBe(null);
  expect(tally.line).toBe('2 of 4 done, 1 in progress, 1 waiting');
});

test('A case that fails tells how long the others take, and one of an earlier command does not', () => {
  const tally = new Tally();
  tally.begin(Array.from({ length: 4 }, (_, index) => stateOf(index, 'waiting')));
  tally.saw({ ...stateOf(0, 'done'), isNew: false });
  tally.saw(stateOf(1, 'running'));
  vi.advanceTimersByTime(120_000);
  expect(tally.left).toBeNull();
  tally.saw(stateOf(1, 'failed'));
  expect(tally.left).toBe('4 min');
  expect(tally.line).toBe('1 of 4 done, 0 in progress, 2 waiting, 1 failed; about 4 min left');
});
