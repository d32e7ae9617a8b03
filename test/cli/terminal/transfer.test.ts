import { expect, test } from 'vitest';
import { Transfer } from '../../../src/cli/terminal/text-reporter.js';

const mebi = 2 ** 20;

/** A transfer at a constant rate, after this many seconds. */
function after(seconds: number, total: number, rate: number): Transfer {
  const transfer = new Transfer('Uploading', total, 0);
  const steps = Math.ceil(seconds * 10);
  for (let at = 1; at <= steps; at += 1) {
    const time = (seconds * at) / steps;
    transfer.moved(Math.round(rate * time), time * 1000);
  }
  return transfer;
}

const slow = () => after(360, 999 * mebi, 1.2 * mebi);

test.each([
  [120, 'Uploading [==========--------------] 43% 1.2 MiB/s 432.0 MiB of 999.0 MiB ETA 7 min 53 s'],
  [80, 'Uploading [======----------] 43% 1.2 MiB/s 432.0 MiB of 999.0 MiB ETA 7 min 53 s'],
  [60, 'Uploading 43% 432.0 MiB of 999.0 MiB ETA 7 min 53 s'],
  [40, 'Uploading [===------] 43% ETA 7 min 53 s'],
  [20, 'Uploading 43%'],
])('A bar fits into %d columns by dropping the least important parts', (columns, bar) => {
  expect(slow().bar(columns, 360_000)).toBe(bar);
});

test('No bar is wider than its columns, and its figures have one unit', () => {
  for (let room = 14; room < 130; room += 1) {
    for (const seconds of [0, 0.3, 59, 359.99, 361]) {
      const bar = after(seconds, 999 * mebi, 1.2 * mebi).bar(room, seconds * 1000);
      expect(bar.length).toBeLessThanOrEqual(room);
      expect(bar).not.toMatch(/\b60 (s|min)\b|NaN|Infinity/);
    }
  }
});

test('The rate covers the last few seconds, and falls while nothing is transferred', () => {
  const transfer = new Transfer('Uploading', 1000 * mebi, 0);
  // The system's buffers take this much at once.
  transfer.moved(100 * mebi, 1);
  for (let at = 1; at <= 30; at += 1) transfer.moved((100 + at) * mebi, at * 1000);
  expect(transfer.rate(30_000) / mebi).toBeCloseTo(1, 1);
  expect(transfer.rate(60_000) / mebi).toBeLessThan(0.4);
});

test('The log lines and the summary show the same figures', () => {
  expect(slow().words(360_000)).toBe('Uploading: 43 %, 432.0 MiB of 999.0 MiB, 1.2 MiB/s, 7 min 53 s left');
  expect(slow().summary(360_000)).toBe('Uploaded 432.0 MiB in 6 min (1.2 MiB/s)');
});

test('Bytes that existed before a download resumed do not count as downloaded', () => {
  const transfer = new Transfer('Downloading', 100 * mebi, 0, 60 * mebi);
  for (let at = 1; at <= 10; at += 1) transfer.moved((60 + 4 * at) * mebi, at * 1000);
  expect(transfer.rate(10_000) / mebi).toBeCloseTo(4, 5);
  expect(transfer.summary(10_000)).toBe('Downloaded 40.0 MiB in 10 s (4.0 MiB/s)');
});

test('Cases that take seconds each are counted without a speed, but with the time left', () => {
  const transfer = new Transfer('Drawing', 5, 0);
  for (let at = 1; at <= 4; at += 1) transfer.moved(at, at * 4000);
  expect(transfer.words(16_000)).toBe('Drawing: 80 %, 4 of 5 cases, 4 s left');
  expect(transfer.summary(16_000)).toBe('Drawn 4 cases in 16 s');
});
