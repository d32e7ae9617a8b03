import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { deflateRaw } from 'node:zlib';

const deflate = promisify(deflateRaw);

/** File formats that are compressed already; a sample of their header alone could mislead. */
const compressedSuffix = /\.(gz|png|jpe?g|jp2|zip|zst|xz|bz2|7z|mp4|webp|npz|safetensors)$/i;

const sampleBytes = 64 * 1024;
/** A sample that keeps more than this share of its size is not worth the time of deflating. */
const worthwhile = 0.92;

/**
 * Whether deflating a file would make it smaller, judged by its name, then by samples from its start,
 * middle and end. Deflating what does not shrink costs twenty times what storing it does.
 */
export async function isCompressible(path: string, size: number): Promise<boolean> {
  if (compressedSuffix.test(path)) return false;
  if (size < 1024) return true;
  await using file = await open(path);
  const positions = [
    ...new Set([0, (size - sampleBytes) / 2, size - sampleBytes].map((at) => Math.max(0, Math.floor(at)))),
  ];
  let before = 0;
  let after = 0;
  for (const position of positions) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(sampleBytes), 0, sampleBytes, position);
    before += bytesRead;
    after += (await deflate(buffer.subarray(0, bytesRead), { level: 1 })).length;
  }
  return after < before * worthwhile;
}
