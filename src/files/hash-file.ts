import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

/**
 * The size of a file in bytes, and the SHA-256 of its content.
 * @throws the system's error; the reason of the signal
 */
export async function hashFile(
  target: string,
  signal?: AbortSignal,
): Promise<{ readonly size: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  await using handle = await open(target);
  const pieces = handle.createReadStream({ autoClose: false, highWaterMark: 1 << 20 });
  let size = 0;
  for await (const piece of pieces as AsyncIterable<Buffer>) {
    signal?.throwIfAborted();
    hash.update(piece);
    size += piece.length;
  }
  return { size, sha256: hash.digest('hex') };
}
