import { expect } from 'vitest';

/** Compares bytes in one step. Vitest compares number by number, which takes seconds for a megabyte. */
function haveEqualBytes(one: unknown, other: unknown): true | undefined {
  if (!ArrayBuffer.isView(one) || !ArrayBuffer.isView(other)) return undefined;
  if (one.constructor !== other.constructor) return undefined;
  const bytesOf = (view: ArrayBufferView) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  // If the bytes differ, Vitest compares them and reports where.
  return bytesOf(one).equals(bytesOf(other)) ? true : undefined;
}

expect.addEqualityTesters([haveEqualBytes]);
