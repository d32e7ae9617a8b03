import { randomBytes } from 'node:crypto';
import original from 'crc-32';
import { expect, test } from 'vitest';
import standIn from '../../tools/crc-32.mjs';

test('the sum is that of the package it stands in for, at once and bit by bit', () => {
  const bytes = randomBytes(100_001);
  const [start, end] = [bytes.subarray(0, 33_333), bytes.subarray(33_333)];
  expect(standIn.buf(bytes)).toBe(original.buf(bytes));
  expect(standIn.buf(end, standIn.buf(start))).toBe(original.buf(bytes));
  expect(standIn.buf(Buffer.alloc(0))).toBe(original.buf(Buffer.alloc(0)));
});

test('the sum begins with nothing where archiver has none yet', () => {
  // compress-commons makes the sum unsigned in between.
  const first = standIn.buf(Buffer.from('volume'), Buffer.alloc(4));
  expect(first).toBe(original.buf(Buffer.from('volume')));
  expect(standIn.buf(Buffer.from('s'), first >>> 0)).toBe(original.buf(Buffer.from('volumes')));
});
