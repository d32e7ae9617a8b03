import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

/** The size of a file in bytes, and the SHA-256 of its content. @throws the system's error; the reason of the signal */
export async function hashFile(
  target: string,
  signal?: AbortSignal,
): Promise<{ readonly size: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  let size = 0;
  const stream = createReadStream(target, { highWaterMark: 1 << 20, ...(signal ? { signal } : {}) });
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { size, sha256: hash.digest('hex') };
}
