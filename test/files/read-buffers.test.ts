import {
  constants,
  type NodeGCPerformanceDetail,
  type PerformanceEntry,
  PerformanceObserver,
} from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { garbageCollector } from '../../src/files/garbage-collector.js';
import { readBufferCollector } from '../../src/files/read-buffers.js';
import { until } from '../../support/until.mjs';

const MiB = 1 << 20;
const { NODE_PERFORMANCE_GC_MAJOR: major, NODE_PERFORMANCE_GC_FLAGS_FORCED: forced } = constants;

const bufferBytes = () => process.memoryUsage().arrayBuffers;

/** Counts the collections of all objects that somebody asks for. V8 does others by itself. */
function countCollections(): { readonly count: () => Promise<number> } & Disposable {
  let seen = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { kind, flags = 0 } = (entry as PerformanceEntry & { detail: NodeGCPerformanceDetail }).detail;
      if (kind === major && (flags & forced) !== 0) seen += 1;
    }
  });
  observer.observe({ entryTypes: ['gc'] });
  const count = async () => {
    // Entries come a moment later.
    for (let turn = 0; turn < 5; turn += 1) await setImmediate();
    return seen;
  };
  return { count, [Symbol.dispose]: () => observer.disconnect() };
}

/** Frees what other tests have left in this process. V8 does that on another thread, and counts them until it is done. */
async function freeBuffers(): Promise<void> {
  garbageCollector().major();
  let before = Number.POSITIVE_INFINITY;
  await until('no more buffers are freed', () => {
    const last = before;
    before = bufferBytes();
    return before === last;
  });
}

test('all objects are collected whenever there are twice as many bytes of buffers as the last time left', async () => {
  using collections = countCollections();
  await freeBuffers();
  const collect = readBufferCollector();
  const before = await collections.count();
  const waiting: Buffer[] = [];
  for (const times of [1, 2, 3]) {
    // At first 12 MiB are enough. Larger buffers would have V8 collect all by itself.
    waiting.push(Buffer.alloc(Math.max(16 * MiB, bufferBytes() + 2 * MiB)));
    collect(4 * MiB);
    expect(await collections.count()).toBe(before + times);
    collect(4 * MiB);
    expect(await collections.count()).toBe(before + times);
  }
  expect(waiting).toHaveLength(3);
});
