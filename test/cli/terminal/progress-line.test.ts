import { describe, expect, test } from 'vitest';
import { AppBars, readProgress } from '../../../src/cli/terminal/app-bars.js';

test.each([
  ['45%|###      | 45/100 [00:10<00:12]', '', 45, '45', '100', '00:12'],
  ['Prediction : 45%|████▌     | 45/100 [00:10<00:12,  4.52it/s]', 'Prediction', 45, '45', '100', '00:12'],
  [
    'Prediction: 100%|##########| 1.2k/1.2k [01:00<00:00, 20.0it/s, loss=0.3]',
    'Prediction',
    100,
    '1.2k',
    '1.2k',
    '00:00',
  ],
  [
    'Prediction : Memory (3.30G (14.00 %)):  33% 2/6 [00:00<00:12, ?it/s]',
    'Prediction',
    33,
    '2',
    '6',
    '00:12',
  ],
  [
    'Scanning Prediction: CPU (100.00 %):   0%|          | 0/2 [00:00<?, ?it/s]',
    'Scanning Prediction',
    0,
    '0',
    '2',
    null,
  ],
  ['45%|###', '', 45, null, null, null],
  ['Reading: 45%|####      |', 'Reading', 45, null, null, null],
  ['45% 3/25', '', 45, '3', '25', null],
  ['Case head-mr: 12% 3/25', 'Case head-mr', 12, '3', '25', null],
  ['  0%|          | 0/3 [00:00<?, ?it/s]\u001b[A', '', 0, '0', '3', null],
])('%j is progress', (line, what, percent, done, total, left) => {
  expect(readProgress(line)).toEqual({ what, percent, done, total, left });
});

test.each([
  'Dice 45% of 3/25 cases',
  '100%|done',
  'Loss fell by 45 %',
  '3/25',
  'Case 3/25: 45% brain',
  `${'x'.repeat(5000)} 45% 3/25`,
])('%j is a line', (line) => {
  expect(readProgress(line)).toBeNull();
});

describe('the bars of an app', () => {
  const bars = (...lines: string[]): AppBars => {
    const all = new AppBars();
    for (const line of lines) all.push(line);
    return all;
  };

  test('are drawn with what, percents, counts and the time left, and fit', () => {
    const all = bars('Prediction : 45%|####     | 45/100 [00:10<00:12]');
    expect(all.drawing(80)).toBe('Prediction [==========--------------] 45% 45/100 00:12 left');
    expect(all.drawing(40)).toBe('Prediction 45% 45/100 00:12 left');
    for (let room = 0; room < 80; room += 1) expect(all.drawing(room).length).toBeLessThanOrEqual(room);
    expect(all.drawing(30)).toBe('Predicti 45% 45/100 00:12 left');
  });

  test('without counts are drawn by their percents', () => {
    expect(bars('45%|###').drawing(80)).toBe('[==========--------------] 45%');
  });

  test('inside each other are drawn as the outer one', () => {
    const all = bars('Epoch: 50% 1/2', 'Batch: 10% 1/10', 'Batch: 20% 2/10');
    expect(all.drawing(80)).toMatch(/^Epoch \[=+-+\] 50% 1\/2 > Batch 20%$/);
    expect(all.push('Batch: 100% 10/10')).toEqual([]);
    expect(all.push('Batch: 10% 1/10')).toEqual([]);
    expect(all.push('Epoch: 100% 2/2')).toEqual([]);
    expect(all.end()).toEqual(['Epoch: 100% 2/2']);
  });

  test('after each other leave the finished ones as rows', () => {
    const all = bars('A: 100% 5/5');
    expect(all.push('B: 0% 0/7')).toEqual(['A: 100% 5/5']);
    expect(all.push('B: 100% 7/7')).toEqual([]);
    expect(all.push('B: 0% 0/7')).toEqual(['B: 100% 7/7']);
    expect(all.interrupt()).toEqual([]);
    expect(all.push('B: 50% 3/7')).toEqual([]);
  });

  test('that an app abandons do not stay for ever', () => {
    const all = bars('A: 40% 2/5');
    expect(all.interrupt()).toEqual([]);
    expect(all.push('B: 0% 0/7')).toEqual(['A: 40% 2/5']);
    expect(all.drawing(80)).toMatch(/^B /);
    all.wipe();
    expect(all.end()).toEqual([]);
  });
});
