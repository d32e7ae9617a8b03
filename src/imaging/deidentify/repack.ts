import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createDeflate, createGzip, createUnzip } from 'node:zlib';
import { UsageError } from '../../client/errors.js';
import type { PreparedFile } from '../../client/outgoing.js';
import { quotePath } from '../../contract/index.js';
import { privateMode } from '../../files/index.js';
import type { Packing, VolumeStart } from './volume-start.js';

/** How packed voxels are repacked. The gzip header and anything else in the packed data are not sent. */
export interface Repack {
  /** Where the packed bytes begin in the file. */
  readonly from: number;
  /** Unpacked bytes to skip, and the number to send after them. */
  readonly skip: number;
  readonly take: number;
  /** Bytes to pack before the voxels. */
  readonly inside: Buffer;
  /** What to pack after the voxels. */
  readonly behind?: VolumeStart['behind'];
  readonly to: Packing;
  /** Returns what precedes the packed bytes, given their number. */
  readonly front: (packed: number) => Buffer;
}

/** The fastest compression, because the archive is sent once and then unpacked. */
const level = 1;

async function* partOf(
  unpacked: AsyncIterable<Buffer>,
  { skip, take, inside, behind }: Repack,
  signal: AbortSignal | undefined,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  yield inside;
  let at = 0;
  const end = skip + take;
  const tailEnd = end + (behind?.bytes ?? 0);
  const tail: Buffer[] = [];
  for await (const chunk of unpacked) {
    signal?.throwIfAborted();
    const part = chunk.subarray(Math.max(0, skip - at), Math.max(0, end - at));
    tail.push(Buffer.from(chunk.subarray(Math.max(0, end - at), Math.max(0, tailEnd - at))));
    at += chunk.length;
    if (part.length > 0) yield part;
    onBytes(at);
    if (at >= tailEnd) break;
  }
  if (at < end) throw new CutShort();
  if (behind) yield behind.encode(Buffer.concat(tail));
}

class CutShort extends Error {
  override readonly message = 'it has fewer voxels than its header says';
}

/**
 * Repacks voxels into a new file.
 * @throws UsageError for damaged data; the system's error
 */
export async function repack(
  file: string,
  target: string,
  how: Repack,
  {
    signal,
    onBytes,
  }: { readonly signal?: AbortSignal | undefined; readonly onBytes: (bytes: number) => void },
): Promise<PreparedFile> {
  const source = createReadStream(file, { start: how.from, highWaterMark: 1 << 18 });
  const unzip = createUnzip({ chunkSize: 1 << 18 });
  source.on('error', (error) => unzip.destroy(error)).pipe(unzip);
  try {
    const packer = how.to === 'gzip' ? createGzip({ level }) : createDeflate({ level });
    const sink = createWriteStream(target, { flags: 'wx', mode: privateMode });
    await pipeline(partOf(unzip, how, signal, onBytes), packer, sink);
  } catch (cause) {
    signal?.throwIfAborted();
    const isOfData = cause instanceof CutShort || /^Z_/.test((cause as NodeJS.ErrnoException).code ?? '');
    if (!isOfData) throw cause;
    const why = cause instanceof CutShort ? cause.message : 'its packed data cannot be unpacked';
    throw new UsageError(`${quotePath(file)} is damaged: ${why}; copy it again from the original`, { cause });
  } finally {
    source.destroy();
    unzip.destroy();
  }
  const { size } = await stat(target);
  const front = how.front(size);
  const pieces = [...(front.length > 0 ? [front] : []), { start: 0, end: size }];
  return { path: target, pieces, size: front.length + size };
}

/** Unpacks a gzip file into a new file. @throws UsageError for damaged data; the system's error */
export async function unpack(file: string, target: string, signal: AbortSignal | undefined): Promise<void> {
  try {
    const sink = createWriteStream(target, { flags: 'wx', mode: privateMode });
    await pipeline(createReadStream(file), createUnzip(), sink, signal ? { signal } : {});
  } catch (cause) {
    if (!/^Z_/.test((cause as NodeJS.ErrnoException).code ?? '')) throw cause;
    throw new UsageError(`${quotePath(file)} is damaged: it cannot be unpacked`, { cause });
  }
}

/** A header of gzip that says nothing. */
const plainHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/**
 * Finds the end of the first gzip header, with its optional name, comment and extra field, and gives a plain header to replace
 * it; null if it does not end within these bytes.
 */
export function gzipHeaderOf(start: Buffer): { readonly plain: Buffer; readonly end: number } | null {
  const flags = start[3] ?? 0;
  let end = 10;
  if (flags & 4) end += 2 + (start.length >= end + 2 ? start.readUInt16LE(end) : start.length);
  for (const flag of [8, 16]) {
    if (!(flags & flag)) continue;
    const zero = start.indexOf(0, end);
    if (zero < 0) return null;
    end = zero + 1;
  }
  if (flags & 2) end += 2;
  return end <= start.length ? { plain: plainHeader, end } : null;
}
