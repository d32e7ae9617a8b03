import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type LogFile, OutputLog } from '../../src/runner/log.js';

let now = 0;
let written: string[] = [];
let output: OutputLog;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  written = [];
  output = new OutputLog({ append: (lines: string[]) => written.push(...lines) } as unknown as LogFile);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** What is logged when the command writes this. */
function logged(text: string): string[] {
  written.length = 0;
  output.push(Buffer.from(text));
  return [...written];
}

const bars = (count: number) => Array.from({ length: count }, (_, index) => `${index}\r`).join('');

test.for([
  '[remote-app] Killed by user',
  '[remote-app]',
  '\u001b[31m[remote-app] Result: 3 files',
  '\u200b\u001b[0m\u001b[1;32m[remote-app] Assigned GPUs: 0',
  '\0\u0008[remote-app] a line',
])("A line of the command that looks like one of the service's own gets a leading space: %j", (line) => {
  expect(logged(`${line}\n`)).toEqual([` ${line}`]);
});

test.for(['case 1 of 3', '', 'see [remote-app] above', ' [remote-app] quoted', '[remote-application]'])(
  'Any other line is left unchanged: %j',
  (line) => {
    expect(logged(`${line}\n`)).toEqual([line]);
  },
);

describe('Redraws', () => {
  test('Redraws are all logged if there are few', () => {
    expect(logged('1 %\r2 %\rdone\n')).toEqual(['1 %\r', '2 %\r', 'done']);
  });

  test('Redraws are held back after a burst; the newest is logged before the next line', () => {
    expect(logged(bars(1500)).length).toBe(1000);
    expect(logged('99 %\r100 %\rdone\nmore\n')).toEqual(['100 %\r', 'done', 'more']);
  });

  test('Redraws that are held back are logged in a pause or at the end, once', () => {
    logged(bars(1200));
    written.length = 0;
    vi.advanceTimersByTime(250);
    expect(written).toEqual(['1199\r']);
    logged('\r\rlast\r');
    written.length = 0;
    output.end();
    vi.advanceTimersByTime(250);
    expect(written).toEqual(['last\r']);
  });

  test('Redraws are logged at a limited rate after the burst', () => {
    logged(`${bars(1000)}x`);
    now = 1000;
    expect(logged(`${bars(100)}x`).length).toBe(20);
    now = 3_600_000;
    expect(logged(`${bars(2000)}x`).length).toBe(1000);
  });

  test('Redraws that move the cursor up are all logged, after the one that is held back', () => {
    logged(bars(1001));
    const moving = 'inner\u001b[A\r';
    expect(logged(`${moving}${moving}x`)).toEqual(['1000\r', moving, moving]);
  });

  test('Redraws never hold back other lines', () => {
    expect(logged('line\n'.repeat(5000)).length).toBe(5000);
  });
});
