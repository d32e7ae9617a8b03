import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

/** The size of a file in bytes, and the SHA-256 of its content. @throws the system's error; the reason of the signal */
export async function hashFile(
  target: string,
  signal?: AbortSignal,
  onBytes?: (hashed: number) => void,
): Promise<{ readonly size: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  await using handle = await open(target);
  // Two buffers, of which one is read while the other is hashed: with a new one for each piece, most of the time goes into
  // collecting them.
  const length = Math.min(1 << 20, (await handle.stat()).size + 1);
  let [buffer, other] = [Buffer.allocUnsafe(length), Buffer.allocUnsafe(length)];
  const read = (into: Buffer, position: number) => {
    const reading = handle.read(into, 0, length, position);
    // It is awaited later, or not any more.
    reading.catch(() => {});
    return reading;
  };
  let reading = read(buffer, 0);
  for (let size = 0; ; ) {
    signal?.throwIfAborted();
    const { bytesRead } = await reading;
    if (bytesRead === 0) return { size, sha256: hash.digest('hex') };
    reading = read(other, size + bytesRead);
    hash.update(buffer.subarray(0, bytesRead));
    [buffer, other] = [other, buffer];
    size += bytesRead;
    onBytes?.(size);
  }
}
