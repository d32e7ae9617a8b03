import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

/** The size of a file in bytes, and the SHA-256 of its content. @throws the system's error; the reason of the signal */
export async function hashFile(
  target: string,
  signal?: AbortSignal,
): Promise<{ readonly size: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  await using handle = await open(target);
  // One buffer: with a new one for each piece, most of the time goes into collecting them.
  const buffer = Buffer.allocUnsafe(Math.min(1 << 20, (await handle.stat()).size + 1));
  for (let size = 0; ; ) {
    signal?.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, size);
    if (bytesRead === 0) return { size, sha256: hash.digest('hex') };
    hash.update(buffer.subarray(0, bytesRead));
    size += bytesRead;
  }
}
