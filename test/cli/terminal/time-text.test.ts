import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeJob } from '../../../src/cli/jobs/job-text.js';
import { Colours } from '../../../src/cli/terminal/index.js';
import { formatDistance, formatDuration, formatTime, readTime } from '../../../src/cli/terminal/time-text.js';
import { jobAnswer } from '../../../src/client/connection/answer-schemas.js';
import { nextCommand } from '../../../src/client/next-command.js';

const plain = new Colours({}, {});

const zone = process.env.TZ;
const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

beforeAll(() => {
  process.env.TZ = 'Asia/Kolkata';
});
afterAll(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

test.each([
  [0, '0 s', '0 s'],
  [-3, '0 s', '0 s'],
  [59.4, '59 s', '59 s'],
  [59.6, '1 min', '1 min'],
  [185, '3 min', '3 min 5 s'],
  [359.9, '6 min', '6 min'],
  [3599.6, '1 h', '1 h'],
  [7500, '2 h 5 min', '2 h 5 min'],
  [86_399, '1 day', '1 day'],
  [100_800, '1 day 4 h', '1 day 4 h'],
  [7 * 86_400, '7 days', '7 days'],
  [60, '1 min', '1 min'],
  [61, '1 min', '1 min 1 s'],
  [3600, '1 h', '1 h'],
  [3661, '1 h 1 min', '1 h 1 min'],
  [86_400 + 59 * 60, '1 day 1 h', '1 day 1 h'],
  [2 * 86_400 + 61, '2 days', '2 days'],
])('%d seconds are shown as %s, and as %s in a countdown', (seconds, coarse, fine) => {
  expect([formatDuration(seconds), formatDuration(seconds, true)]).toEqual([coarse, fine]);
});

test('No duration has a 60th second or minute', () => {
  const texts = Array.from({ length: 140_000 }, (_, at) => [
    formatDuration(at * 0.7),
    formatDuration(at * 0.7, true),
  ]);
  expect(texts.flat().filter((text) => /\b60/.test(text))).toEqual([]);
});

test.each([
  [0, 'just now'],
  [4 * second, 'just now'],
  [-4500, 'just now'],
  [5 * second, 'in 5 s'],
  [-4501, '5 s ago'],
  [-5 * second, '5 s ago'],
  [-58 * second, '58 s ago'],
  [-59 * second, '1 min ago'],
  [-40 * second, '40 s ago'],
  [-2 * minute - 30 * second, '2 min ago'],
  [-25 * hour, '1 day ago'],
  [6 * day + 23 * hour, 'in 6 days'],
  [7 * day - 5 * second, 'in 7 days'],
  [day - 5 * second, 'in 1 day'],
  [119 * second, 'in 2 min'],
  [90 * minute, 'in 1 h'],
])('%d ms from now is %s', (distance, words) => {
  expect(formatDistance(1e12 + distance, 1e12)).toBe(words);
});

test('Times are in the local time zone', () => {
  expect(formatTime('2026-02-28T20:35:59.999Z', () => 'x')).toBe('2026-03-01 02:05 (x)');
  expect([readTime(null), readTime('soon'), readTime('2026-01-01T00:00:01Z')]).toEqual([
    null,
    null,
    Date.parse('2026-01-01T00:00:01Z'),
  ]);
  expect(formatTime('2026-02-28T20:35:00Z', (at) => `at ${at / 1000}`)).toBe(
    '2026-03-01 02:05 (at 1772310900)',
  );
  expect([formatTime(null, () => 'x'), formatTime('soon', () => 'x')]).toEqual([null, 'soon']);
});

function job(fields: object) {
  const checked = jobAnswer('ab').check({ status: 'done', ...fields });
  if (!checked.success) throw new Error('it is not accepted as a job');
  return checked.data;
}

test('The times of a job are local, and say how long ago and how long it took', () => {
  const done = job({
    created_at: '2026-03-01T12:00:00Z',
    started_at: '2026-03-01T12:01:00.500Z',
    finished_at: '2026-03-01T12:04:02Z',
    expires_at: '2026-03-08T12:04:02Z',
  });
  const now = Date.parse('2026-03-01T12:06:02Z');
  expect(describeJob(done, now, plain, { nextCommand }).slice(2)).toEqual([
    'Created     2026-03-01 17:30 (6 min ago)',
    'Started     2026-03-01 17:31 (5 min ago)',
    'Finished    2026-03-01 17:34 (2 min ago, took 3 min)',
    'Kept until  2026-03-08 17:34 (in 7 days)',
  ]);
});

test('Packing a result does not count as run time', () => {
  const times = { started_at: '2026-03-01T12:00:00Z', finished_at: '2026-03-01T12:00:45Z' };
  const done = job({ ...times, run_seconds: 9 });
  expect(describeJob(done, 0, plain, { nextCommand }).join()).toContain('took 9 s');
});

test('A running job says how long it has run; a text that is not a time is shown unchanged', () => {
  const now = Date.parse('2026-03-01T12:06:02Z');
  const running = job({ created_at: 'yesterday', started_at: '2026-03-01T12:00:00Z' });
  expect(describeJob(running, now, plain, { nextCommand })).toContain('Created  yesterday');
});

test('A job that never ran has no run time', () => {
  const killed = job({ status: 'killed', finished_at: '2026-03-01T12:04:02Z' });
  expect(describeJob(killed, Date.parse('2026-03-01T12:06:02Z'), plain, { nextCommand }).slice(2)).toEqual([
    'Finished  2026-03-01 17:34 (2 min ago)',
  ]);
});
