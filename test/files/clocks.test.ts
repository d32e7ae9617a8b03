import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  bootTimeIn,
  type Clock,
  monotonicTime,
  secondsUntil,
  systemClock,
  TimeSlice,
  thisBoot,
} from '../../src/files/clocks.js';

const at = (uptime: number): Clock => ({ ...systemClock, uptime: () => uptime });

test.skipIf(process.platform !== 'linux')('a time after the boot is the same to another process', () => {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  expect(thisBoot()).toBe(boot);
  expect(bootTimeIn(at(100), 30)).toEqual({ boot, seconds: 130 });
  expect(secondsUntil(at(120), { boot, seconds: 130 })).toBe(10);
  expect(secondsUntil(at(140), { boot, seconds: 130 })).toBe(-10);
  expect(secondsUntil(at(120), { boot: 'another', seconds: 130 })).toBeNull();
});

test('a timer of the machine calls once, or never if it is cancelled', async () => {
  const calls: string[] = [];
  const cancel = systemClock.after(0, () => calls.push('cancelled'));
  cancel();
  // A timer of its own keeps the process alive.
  await new Promise<void>((resolve) => {
    const keeping = setInterval(() => {}, 1000);
    systemClock.after(1, () => {
      calls.push('called');
      clearInterval(keeping);
      resolve();
    });
  });
  expect(calls).toEqual(['called']);
});

test('long work lets others run after five milliseconds, and then has as many again', async () => {
  const slice = new TimeSlice();
  let others = 0;
  const work = (length: number) => {
    for (const end = monotonicTime() + length; monotonicTime() < end; );
  };
  setImmediate(() => {
    others += 1;
  });
  work(5);
  expect([slice.isOver, others]).toEqual([true, 0]);
  await slice.pause();
  expect(others).toBe(1);
  // Another process may take the processor in between.
  const isFresh = async () => {
    await slice.pause();
    return !slice.isOver;
  };
  const fresh = await Promise.all(Array.from({ length: 100 }, isFresh));
  expect(fresh).toContain(true);
});
