import { expect } from 'vitest';

/** Compares bytes all at once: Vitest looks at each number by itself, which takes seconds for a megabyte. */
function haveEqualBytes(one: unknown, other: unknown): true | undefined {
  if (!ArrayBuffer.isView(one) || !ArrayBuffer.isView(other)) return undefined;
  if (one.constructor !== other.constructor) return undefined;
  const bytesOf = (view: ArrayBufferView) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  // Where the bytes differ, Vitest decides, and says which ones.
  return bytesOf(one).equals(bytesOf(other)) ? true : undefined;
}

expect.addEqualityTesters([haveEqualBytes]);
