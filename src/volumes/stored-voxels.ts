import { createReadStream } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip, createInflate } from 'node:zlib';
import { type Size, type Slice, type SliceChoice, VolumeError, type Voxels } from './volume.js';

/** Types of stored values: their bytes, and what holds them in memory. */
export const valueTypes = {
  uint8: { bytes: 1, array: Uint8Array },
  int8: { bytes: 1, array: Int8Array },
  uint16: { bytes: 2, array: Uint16Array },
  int16: { bytes: 2, array: Int16Array },
  uint32: { bytes: 4, array: Uint32Array },
  int32: { bytes: 4, array: Int32Array },
  uint64: { bytes: 8, array: BigUint64Array },
  int64: { bytes: 8, array: BigInt64Array },
  float32: { bytes: 4, array: Float32Array },
  float64: { bytes: 8, array: Float64Array },
} as const;

export type ValueType = keyof typeof valueTypes;

/** Where the voxels of a volume lie in a file, and how they are written. */
export interface StoredVoxels {
  /** The file that the person named: for messages. */
  readonly path: string;
  /** The file with the voxels; or several files that are not packed, each with the same number of slices. */
  readonly dataFiles: readonly [string, ...string[]];
  /** How the file, or what follows `packedFrom`, is packed; null if it is not. */
  readonly packing: 'gzip' | 'zlib' | null;
  /** Bytes of the file before the packed data: 0 if the header is packed as well. */
  readonly packedFrom: number;
  /** Bytes before the first voxel; in unpacked data, if the file is packed. */
  readonly start: number;
  readonly type: ValueType;
  readonly isBigEndian: boolean;
  readonly size: Size;
  readonly components: 1 | 3 | 4;
  readonly frames: number;
  /** Whether the values of all frames are stored together for each voxel, and not one frame after another. */
  readonly isInterleaved: boolean;
  readonly slope: number;
  readonly intercept: number;
}

/**
 * The files that a header names, in its own directory.
 * @throws VolumeError for a name that leads elsewhere
 */
export function besideHeader(file: string, names: readonly string[]): [string, ...string[]] {
  const [first, ...others] = names.map((name) => {
    if (name === '' || path.isAbsolute(name) || /[\\/]/.test(name) || name === '..')
      throw new VolumeError(
        `${path.basename(file)} names a data file outside its own folder (${name}): write its name without folders.`,
      );
    return path.join(path.dirname(file), name);
  });
  if (first === undefined)
    throw new VolumeError(
      `${path.basename(file)} names no file with its voxels: write it again as one file.`,
    );
  return [first, ...others];
}

/** Most files that a header may name. */
const maxFiles = 100_000;

/** The files of a pattern such as `slice%03d.raw`, for numbers from `first` to `last`. */
export function numberedFiles(pattern: string, [first = 0, last = 0, step = 1]: readonly number[]): string[] {
  const count = Math.floor((last - first) / step) + 1;
  if (!(count >= 1 && count <= maxFiles)) return [];
  return Array.from({ length: count }, (_, at) =>
    pattern.replace(/%(0?)(\d*)d/, (_all, zero: string, width: string) =>
      String(first + at * step).padStart(Number(width), zero || ' '),
    ),
  );
}

/** Bytes that are unpacked at once. */
const chunkSize = 1 << 20;

/** Most bytes of a slice: 32,768 x 32,768 pixels of 2 bytes. More is a damaged header. */
const maxSlice = 2 ** 31;

/**
 * Refuses voxels that a file cannot hold, so that a damaged header is found before memory is taken.
 * @throws VolumeError
 */
export async function requireVoxels(stored: StoredVoxels): Promise<void> {
  const { size, components, frames, type, start, packing, dataFiles } = stored;
  const name = path.basename(stored.path);
  const isPossible = [...size, frames].every((count) => Number.isSafeInteger(count) && count > 0);
  const bytes = sliceBytes(stored) * size[2] * (stored.isInterleaved ? 1 : frames);
  if (!isPossible || !(start >= 0) || !(sliceBytes(stored) <= maxSlice) || !Number.isSafeInteger(bytes))
    throw new VolumeError(
      `${name} is damaged: its header says ${size.join(' x ')} voxels of ${components * valueTypes[type].bytes} bytes, ${frames} times. Send it again from the original.`,
    );
  const count = dataFiles.length;
  if (count > 1 && (packing !== null || (size[2] * (stored.isInterleaved ? 1 : frames)) % count !== 0))
    throw new VolumeError(
      `${name} has its voxels in ${count} files, which are packed or do not have one slice each: write it again as one file.`,
    );
  for (const file of dataFiles) {
    const found = await stat(file).catch(() => null);
    if (!found?.isFile())
      throw new VolumeError(
        `${name} has its voxels in ${path.basename(file)}, which is not there: keep both together.`,
      );
    if (packing === null && found.size - start < bytes / count)
      throw truncated(name, bytes / count, Math.max(0, found.size - start));
  }
}

const truncated = (name: string, bytes: number, found: number): VolumeError =>
  new VolumeError(
    `${name} is cut short: its header says ${bytes} bytes of voxels, and ${found} are there. Send it again from the original.`,
  );

const sliceBytes = ({ size, components, frames, isInterleaved, type }: StoredVoxels): number =>
  size[0] * size[1] * components * (isInterleaved ? frames : 1) * valueTypes[type].bytes;

/** Reads slices of stored voxels, scaled as the header says. */
export async function* storedSlices(
  stored: StoredVoxels,
  { only, frame = 0 }: SliceChoice = {},
): AsyncGenerator<Slice, void, undefined> {
  const { size, frames, isInterleaved } = stored;
  if (!(frame >= 0 && frame < frames))
    throw new VolumeError(
      `${path.basename(stored.path)} holds ${frames} volumes: there is no number ${frame + 1}.`,
    );
  const wanted = only ?? Array.from({ length: size[2] }, (_, k) => k);
  if (wanted.length === 0) return;
  const bytes = sliceBytes(stored);
  const first = isInterleaved ? 0 : frame * size[2] * bytes;
  const ranges = wanted.map((k) => first + k * bytes);
  const buffer = Buffer.from(new ArrayBuffer(bytes));
  const decode = decoderOf(stored, buffer, frame);
  let at = 0;
  const pieces = stored.packing === null ? storedPieces : packedPieces;
  for await (const _ of pieces(stored, ranges, buffer)) {
    yield { k: wanted[at] as number, values: decode() };
    at += 1;
  }
}

/** Fills the buffer with each range of the voxels of files that are not packed. */
async function* storedPieces(
  stored: StoredVoxels,
  ranges: readonly number[],
  buffer: Buffer,
): AsyncGenerator<void, void, undefined> {
  const { path: named, dataFiles, start, size, frames, isInterleaved } = stored;
  const inFile = (sliceBytes(stored) * size[2] * (isInterleaved ? 1 : frames)) / dataFiles.length;
  let handle: FileHandle | undefined;
  let opened = -1;
  try {
    for (const range of ranges) {
      const file = Math.floor(range / inFile);
      if (file !== opened) {
        await handle?.close();
        handle = await open(dataFiles[file] as string);
        opened = file;
      }
      const from = start + range - file * inFile;
      let filled = 0;
      while (filled < buffer.length) {
        const read = await handle?.read(buffer, filled, buffer.length - filled, from + filled);
        if (!read?.bytesRead) throw truncated(path.basename(named), from + buffer.length, from + filled);
        filled += read.bytesRead;
      }
      yield;
    }
  } finally {
    await handle?.close();
  }
}

/** Fills the buffer with each range of a packed file: all before the last one is unpacked, and dropped. */
async function* packedPieces(
  { path: named, dataFiles, packing, packedFrom, start }: StoredVoxels,
  ranges: readonly number[],
  buffer: Buffer,
): AsyncGenerator<void, void, undefined> {
  const name = path.basename(named);
  const source = createReadStream(dataFiles[0], { start: packedFrom, highWaterMark: chunkSize });
  const unpacker = packing === 'gzip' ? createGunzip({ chunkSize }) : createInflate({ chunkSize });
  // Errors reach the reader below.
  pipeline(source, unpacker, () => {});
  let [position, at, filled] = [0, 0, 0];
  try {
    for await (const chunk of unpacker as AsyncIterable<Buffer>) {
      let from = 0;
      while (at < ranges.length) {
        const next = start + (ranges[at] as number) + filled - position;
        if (next >= chunk.length) break;
        from = Math.max(from, next);
        const count = chunk.copy(buffer, filled, from);
        filled += count;
        from += count;
        if (filled < buffer.length) break;
        yield;
        [filled, at] = [0, at + 1];
      }
      position += chunk.length;
      if (at === ranges.length) return;
    }
    throw truncated(name, (ranges.at(-1) as number) + buffer.length, Math.max(0, position - start));
  } catch (error) {
    if (error instanceof VolumeError) throw error;
    throw new VolumeError(
      `${name} is damaged or cut short: its packed data cannot be unpacked (${(error as Error).message}). Send it again from the original.`,
    );
  } finally {
    source.destroy();
    unpacker.destroy();
  }
}

/** Makes values of the bytes in a buffer, which is read into again and again. */
function decoderOf(stored: StoredVoxels, buffer: Buffer, frame: number): () => Voxels {
  const { type, isBigEndian, isInterleaved, frames, components, slope, intercept } = stored;
  const { bytes, array } = valueTypes[type];
  const raw = new array(buffer.buffer as ArrayBuffer);
  const count = isInterleaved ? raw.length / frames : raw.length;
  const isScaled = slope !== 1 || intercept !== 0;
  const isLong = raw instanceof BigInt64Array || raw instanceof BigUint64Array;
  const isPrecise = isLong || bytes === 8 || (bytes === 4 && type !== 'float32');
  // Another array than the bytes' own is only needed where values change, or are picked.
  let values: Voxels | null = null;
  if (isScaled || isLong) values = isPrecise ? new Float64Array(count) : new Float32Array(count);
  else if (isInterleaved) values = new (raw.constructor as new (length: number) => Voxels)(count);
  const [step, offset] = isInterleaved ? [frames, frame * components] : [1, 0];
  return () => {
    if (isBigEndian) swap(buffer, bytes);
    if (values === null) return raw as Voxels;
    for (let at = 0; at < count; at += 1) {
      const value = Number(raw[at * step + offset]);
      values[at] = isScaled ? value * slope + intercept : value;
    }
    return values;
  };
}

function swap(buffer: Buffer, bytes: number): void {
  if (bytes === 2) buffer.swap16();
  else if (bytes === 4) buffer.swap32();
  else if (bytes === 8) buffer.swap64();
}
