import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readBufferCollector } from '../../src/files/read-buffers.js';

const MiB = 1 << 20;

test('buffers that wait for a slow disk, and are no young objects when it is done with them, are freed soon', async () => {
  const collect = readBufferCollector();
  const before = process.memoryUsage().arrayBuffers;
  const waiting: Buffer[] = [];
  let most = 0;
  for (let round = 0; round < 100; round += 1) {
    for (let read = 0; read < 4 * MiB; read += 1 << 16) {
      const piece = Buffer.allocUnsafeSlow(1 << 16);
      // Every fourth piece waits for three collections.
      if (read % (1 << 18) === 0) waiting.push(piece);
    }
    waiting.splice(0, Math.max(0, waiting.length - 48));
    collect(4 * MiB);
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
    await setImmediate();
  }
  // V8 by itself lets them become 60 MiB.
  expect(most).toBeLessThan(40 * MiB);
});
