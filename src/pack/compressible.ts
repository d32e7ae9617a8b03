import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { deflateRaw, type ZlibOptions } from 'node:zlib';

const inThread = promisify(deflateRaw);

/** Deflates in a thread, quickly rather than well. */
export const deflate = (bytes: Buffer, options: ZlibOptions = {}): Promise<Buffer> =>
  inThread(bytes, { ...options, level: 1 });

/** File formats that are compressed already; a sample of their header alone could mislead. */
const compressedSuffix = /\.(gz|png|jpe?g|jp2|zip|zst|xz|bz2|7z|mp4|webp|npz|safetensors)$/i;

/** Bytes of one sample. A file of at most this size is judged by all of its bytes. */
export const sampleBytes = 64 * 1024;

/** A file that deflates to more than this share of its size is stored: the saving is not worth the time. */
const worthwhile = 0.92;

/** Whether a file's name says that deflating would not make it smaller. */
export const isCompressed = (name: string): boolean => compressedSuffix.test(name);

/** The bytes deflated, or null if that makes them hardly smaller. */
export async function deflated(bytes: Buffer): Promise<Buffer | null> {
  const shorter = await deflate(bytes);
  return shorter.length < bytes.length * worthwhile ? shorter : null;
}

/**
 * Whether deflating a large file would make it smaller, judged by samples from its start, middle and end. Deflating
 * data that does not shrink takes twenty times as long as storing it.
 */
export async function isCompressible(file: FileHandle, size: number): Promise<boolean> {
  let before = 0;
  let after = 0;
  for (const position of [0, Math.floor((size - sampleBytes) / 2), size - sampleBytes]) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(sampleBytes), 0, sampleBytes, position);
    before += bytesRead;
    after += (await deflate(buffer.subarray(0, bytesRead))).length;
  }
  return after < before * worthwhile;
}
