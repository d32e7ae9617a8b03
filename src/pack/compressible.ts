import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { deflateRaw } from 'node:zlib';

const deflate = promisify(deflateRaw);

/** File formats that are compressed already; a sample of their header alone could mislead. */
const compressedSuffix = /\.(gz|png|jpe?g|jp2|zip|zst|xz|bz2|7z|mp4|webp|npz|safetensors)$/i;

/** Bytes of one sample; a file that has no more is judged by all of it. */
export const sampleBytes = 64 * 1024;

/** A file that keeps more than this share of its size is not worth the time of deflating and inflating it. */
const worthwhile = 0.92;

/** Whether a file's name says that deflating would not make it smaller. */
export const isCompressed = (name: string): boolean => compressedSuffix.test(name);

/** The bytes deflated; null where they are hardly smaller. */
export async function deflated(bytes: Buffer): Promise<Buffer | null> {
  const shorter = await deflate(bytes, { level: 1 });
  return shorter.length < bytes.length * worthwhile ? shorter : null;
}

/**
 * Whether deflating a large file would make it smaller, judged by samples from its start, middle and end. Deflating
 * what does not shrink costs twenty times what storing it does.
 */
export async function isCompressible(file: FileHandle, size: number): Promise<boolean> {
  let before = 0;
  let after = 0;
  for (const position of [0, Math.floor((size - sampleBytes) / 2), size - sampleBytes]) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(sampleBytes), 0, sampleBytes, position);
    before += bytesRead;
    after += (await deflate(buffer.subarray(0, bytesRead), { level: 1 })).length;
  }
  return after < before * worthwhile;
}
