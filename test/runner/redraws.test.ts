import { describe, expect, test } from 'vitest';
import { RedrawLimiter } from '../../src/runner/log.js';

const redraw = (text: string) => ({ text, isRedraw: true });
const line = (text: string) => ({ text, isRedraw: false });
const bars = (count: number) => Array.from({ length: count }, (_, index) => redraw(`${index}`));

describe('redraws', () => {
  test('Redraws are all logged if there are few', () => {
    const limiter = new RedrawLimiter();
    expect(limiter.pass([redraw('1 %'), redraw('2 %'), line('done')])).toEqual(['1 %\r', '2 %\r', 'done']);
    expect(limiter.flush()).toEqual([]);
  });

  test('Redraws are held back after a burst; the newest is logged before the next line', () => {
    const limiter = new RedrawLimiter(() => 0);
    expect(limiter.pass(bars(1500)).length).toBe(1000);
    expect(limiter.pass([redraw('99 %'), redraw('100 %'), line('done'), line('more')])).toEqual([
      '100 %\r',
      'done',
      'more',
    ]);
    expect(limiter.flush()).toEqual([]);
  });

  test('Redraws that are held back are logged in a pause, once', () => {
    const limiter = new RedrawLimiter(() => 0);
    limiter.pass(bars(1200));
    expect([limiter.flush(), limiter.flush()]).toEqual([['1199\r'], []]);
  });

  test('Redraws are logged at a limited rate after the burst', () => {
    let now = 0;
    const limiter = new RedrawLimiter(() => now);
    limiter.pass(bars(1000));
    now = 1000;
    expect(limiter.pass(bars(100)).length).toBe(20);
    now = 3_600_000;
    expect(limiter.pass(bars(2000)).length).toBe(1000);
  });

  test('Redraws that move the cursor up all pass, after the one that is held back', () => {
    const limiter = new RedrawLimiter(() => 0);
    limiter.pass(bars(1001));
    const moving = redraw('inner\u001b[A');
    expect(limiter.pass([moving, moving])).toEqual(['1000\r', `${moving.text}\r`, `${moving.text}\r`]);
  });

  test('Redraws never hold back other lines', () => {
    const lines = Array.from({ length: 5000 }, (_, index) => line(`${index}`));
    expect(new RedrawLimiter(() => 0).pass(lines).length).toBe(5000);
  });
});
