import { createReadStream } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream';
import { createUnzip } from 'node:zlib';
import {
  type Affine,
  arrayLike,
  damaged,
  inverseOf,
  type Size,
  type Slice,
  type SliceChoice,
  type ValueType,
  VolumeError,
  type VolumeFile,
  type VolumeHeader,
  type Voxels,
  valueTypes,
} from './volume.js';

/** What most headers say of their voxels. */
const usual = {
  packedFrom: 0,
  components: 1 as 1 | 3 | 4,
  isInterleaved: false,
  slope: 1,
  intercept: 0,
};

/** Where the voxels of a volume lie in a file, and how they are stored. */
export interface StoredVoxels {
  /** The file that the person named: for messages. */
  readonly path: string;
  /** The file with the voxels; or several files that are not packed, each with the same number of slices. */
  readonly dataFiles: readonly [string, ...string[]];
  /** Whether the file, or what follows `packedFrom`, is packed with gzip or zlib. */
  readonly isPacked: boolean;
  /** Bytes of the file before the packed data: 0 if the header is packed as well. */
  readonly packedFrom: number;
  /** Bytes of each file before its first voxel, in unpacked data if it is packed; null if its voxels are its last bytes. */
  readonly start: number | null;
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

/** What a header says of its voxels, without what is as usual. */
export type VoxelsOfHeader = Omit<StoredVoxels, keyof typeof usual> & Partial<StoredVoxels>;

/**
 * The files that a header names, in its own directory.
 * @throws VolumeError for a name that leads elsewhere
 */
export function besideHeader(file: string, names: readonly string[]): [string, ...string[]] {
  const [first, ...others] = names.map((name) => {
    if (path.isAbsolute(name) || name.split(/[\\/]/).includes('..'))
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

/** Bytes that are unpacked at once: more is no faster, and many masks are read in step. Of a small volume it is less. */
const chunkSize = 1 << 18;
const leastChunk = 4096;

/** Most bytes of a slice, with all its frames where these are interleaved, and most values of one frame of it: 11,585 x 11,585. */
const [maxSlice, maxValues] = [2 ** 30, 2 ** 27];

/** More slices than any scan has: time goes by for each of them, however small it is. */
const maxSlices = 65_536;

/** Most bytes that are unpacked of a file: a minute's work. */
const maxUnpacked = 2 ** 35;

/** More volumes than any file has. */
const maxFrames = 1_000_000;

/** Most bytes that one packed byte can become. */
const maxRatio = 1032;

const truncated = (name: string, bytes: number, found: number): VolumeError =>
  damaged(`${name} is cut short: its header says ${bytes} bytes of voxels, and ${found} are there.`);

export const notUnpacked = (file: string, why: string): VolumeError =>
  damaged(`${path.basename(file)} is damaged or cut short: its packed data cannot be unpacked (${why}).`);

/** Bytes of one slice, with all its frames if these are interleaved; and of all voxels in each of the files. */
function bytesOf(stored: StoredVoxels): { readonly slice: number; readonly inFile: number } {
  const { size, components, frames, isInterleaved, type, dataFiles } = stored;
  const slice = size[0] * size[1] * components * (isInterleaved ? frames : 1) * valueTypes[type].bytes;
  return { slice, inFile: (slice * size[2] * (isInterleaved ? 1 : frames)) / dataFiles.length };
}

/**
 * Refuses voxels that a file cannot hold, so that a damaged header is found before memory is taken.
 * @throws VolumeError
 */
async function requireVoxels(stored: StoredVoxels): Promise<void> {
  const { size, components, frames, type, isPacked, start, dataFiles } = stored;
  const name = path.basename(stored.path);
  const { slice, inFile } = bytesOf(stored);
  const isPossible = [...size, frames].every((count) => Number.isSafeInteger(count) && count > 0);
  const isStart = start === null || (Number.isSafeInteger(start) && start >= 0);
  const isReadable =
    slice <= maxSlice &&
    size[0] * size[1] * components <= maxValues &&
    size[2] <= maxSlices &&
    frames <= maxFrames &&
    inFile <= (isPacked ? maxUnpacked : Number.MAX_SAFE_INTEGER);
  if (!isPossible || !isStart || !isReadable)
    throw damaged(
      `${name} is damaged: its header says ${size.join(' x ')} voxels of ${components * valueTypes[type].bytes} bytes, ${frames} times.`,
    );
  const count = dataFiles.length;
  if (count > 1 && (isPacked || inFile % slice !== 0))
    throw new VolumeError(
      `${name} has its voxels in ${count} files, which are packed or do not hold whole slices: write it again as one file.`,
    );
  for (const file of dataFiles) {
    const found = await stat(file).catch(() => null);
    if (!found?.isFile())
      throw new VolumeError(
        `${name} has its voxels in ${path.basename(file)}, which is not there: keep both together.`,
      );
    if (!isPacked && found.size - (start ?? 0) < inFile)
      throw truncated(name, inFile, Math.max(0, found.size - (start ?? 0)));
    if (isPacked && inFile > found.size * maxRatio)
      throw damaged(
        `${name} is cut short: its header says ${inFile} bytes of voxels, which are not in ${found.size} packed bytes.`,
      );
  }
}

/** A volume whose voxels lie in files as its header says. */
export interface StoredVolume extends VolumeFile {
  readonly stored: StoredVoxels;
}

/**
 * The volume of a header that has been read.
 * @param rows of its affine (RAS+)
 * @throws VolumeError if the file is not whole, or its axes do not span a space
 */
export async function storedVolume(
  given: VoxelsOfHeader,
  rows: readonly (readonly number[])[],
  header: Pick<VolumeHeader, 'format' | 'hasOrientation'> &
    Partial<Pick<VolumeHeader, 'modality' | 'unit' | 'hasContradictorySides'>>,
): Promise<StoredVolume> {
  const stored: StoredVoxels = { ...usual, ...given };
  await requireVoxels(stored);
  const affine = rows as unknown as Affine;
  if (!isAffine(rows))
    throw damaged(`${path.basename(stored.path)} is damaged: its axes have no direction or no length.`);
  const dataFiles = stored.dataFiles.filter((file) => file !== stored.path);
  return {
    path: stored.path,
    ...(dataFiles.length > 0 && { dataFiles }),
    size: stored.size,
    affine,
    components: stored.components,
    frames: stored.frames,
    modality: null,
    labels: null,
    ...header,
    stored,
    slices: (choice) => storedSlices(stored, choice),
  };
}

/** Whether the rows of an affine are numbers, and its axes span a space. */
export const isAffine = (rows: readonly (readonly number[])[]): boolean =>
  rows.flat().every(Number.isFinite) && inverseOf(rows as unknown as Affine) !== null;

/** Reads slices of one frame, scaled as the header says. */
async function* storedSlices(
  stored: StoredVoxels,
  { only, frame = 0 }: SliceChoice = {},
): AsyncGenerator<Slice, void, undefined> {
  requireFrame(stored, frame);
  const last = only?.at(-1) ?? 0;
  if (last >= stored.size[2])
    throw new VolumeError(
      `${path.basename(stored.path)} has ${stored.size[2]} slices: there is no number ${last + 1}.`,
    );
  yield* storedPlanes(stored, [frame], only);
}

function requireFrame({ path: named, frames }: StoredVoxels, frame: number): void {
  if (!(frame >= 0 && frame < frames))
    throw new VolumeError(
      `${path.basename(named)} holds ${frames} volumes: there is no number ${frame + 1}.`,
    );
}

/**
 * Reads the voxels of one frame, or of all one after another, in one pass over the file.
 * @throws VolumeError
 */
export async function storedData(stored: StoredVoxels, frame?: number): Promise<Voxels> {
  const frames = frame === undefined ? Array.from({ length: stored.frames }, (_, at) => at) : [frame];
  for (const each of frames) requireFrame(stored, each);
  const [ni, nj, nk] = stored.size;
  const inSlice = ni * nj * stored.components;
  let data: Voxels | null = null;
  for await (const { frame: each, k, values } of storedPlanes(stored, frames)) {
    data ??= arrayOf(stored, values, inSlice * nk * frames.length);
    data.set(values, ((frame === undefined ? each : 0) * nk + k) * inSlice);
  }
  // There is at least one slice.
  return data as Voxels;
}

function arrayOf({ path: named }: StoredVoxels, like: Voxels, length: number): Voxels {
  try {
    return arrayLike(like, length);
  } catch {
    throw new VolumeError(
      `${path.basename(named)} is too large to be read as a whole (${length} values): read it slice by slice, or one volume of it.`,
    );
  }
}

/** Reads slices of frames, in the order in which they are stored. */
export async function* storedPlanes(
  stored: StoredVoxels,
  frames: readonly number[],
  only?: readonly number[],
): AsyncGenerator<Slice & { readonly frame: number }, void, undefined> {
  const { size, isInterleaved } = stored;
  const { slice } = bytesOf(stored);
  const inFrame = only?.length ?? size[2];
  if (inFrame === 0) return;
  const kOf = (at: number) => only?.[at % inFrame] ?? at % inFrame;
  const frameOf = (at: number) => (isInterleaved ? 0 : (frames[Math.floor(at / inFrame)] ?? 0));
  const buffer = Buffer.from(new ArrayBuffer(slice));
  const decode = decoderOf(stored, buffer);
  const ranges = {
    count: isInterleaved ? inFrame : inFrame * frames.length,
    from: (at: number) => (frameOf(at) * size[2] + kOf(at)) * slice,
  };
  let at = 0;
  const pieces = stored.isPacked ? packedPieces : plainPieces;
  for await (const _ of pieces(stored, ranges, buffer)) {
    for (const frame of isInterleaved ? frames : [frameOf(at)])
      yield { frame, k: kOf(at), values: decode(frame) };
    at += 1;
  }
}

/** Where slices begin among the voxels of all files: a file may have too many slices for a list. */
interface Ranges {
  readonly count: number;
  from(at: number): number;
}

/** Fills the buffer with each range of the voxels of files that are not packed. */
async function* plainPieces(
  stored: StoredVoxels,
  ranges: Ranges,
  buffer: Buffer,
): AsyncGenerator<void, void, undefined> {
  const { path: named, dataFiles, start, isBigEndian, type } = stored;
  const { inFile } = bytesOf(stored);
  let opened: { readonly file: number; readonly handle: FileHandle; readonly start: number } | undefined;
  try {
    for (let at = 0; at < ranges.count; at += 1) {
      const range = ranges.from(at);
      const file = Math.floor(range / inFile);
      if (file !== opened?.file) {
        await opened?.handle.close();
        opened = undefined;
        const handle = await open(dataFiles[file] as string);
        opened = { file, handle, start: start ?? (await handle.stat()).size - inFile };
      }
      const from = opened.start + range - file * inFile;
      let filled = 0;
      while (filled < buffer.length) {
        const { bytesRead } = await opened.handle.read(buffer, filled, buffer.length - filled, from + filled);
        if (bytesRead === 0) throw truncated(path.basename(named), from + buffer.length, from + filled);
        filled += bytesRead;
      }
      if (isBigEndian) swap(buffer, type);
      yield;
    }
  } catch (error) {
    if (error instanceof VolumeError) throw error;
    throw new VolumeError(`${path.basename(named)} cannot be read (${(error as Error).message}).`);
  } finally {
    await opened?.handle.close();
  }
}

/** Fills the buffer with each range of a packed file: all before the last one is unpacked, and dropped. */
async function* packedPieces(
  stored: StoredVoxels,
  ranges: Ranges,
  buffer: Buffer,
): AsyncGenerator<void, void, undefined> {
  const { path: named, dataFiles, packedFrom, isBigEndian, type } = stored;
  const start = stored.start ?? 0;
  const { inFile } = bytesOf(stored);
  const pieceSize = Math.min(chunkSize, Math.max(leastChunk, start + inFile));
  const source = createReadStream(dataFiles[0], { start: packedFrom, highWaterMark: pieceSize });
  const unpacker = createUnzip({ chunkSize: pieceSize });
  // Errors reach the reader below.
  pipeline(source, unpacker, () => {});
  // The checksum comes after the last voxel: whoever reads as far as that also reads on to it.
  const isToEnd = ranges.from(ranges.count - 1) + buffer.length === inFile;
  const maxAfter = start + inFile + chunkSize;
  let [position, at, filled] = [0, 0, 0];
  try {
    for await (const chunk of unpacker as AsyncIterable<Buffer>) {
      let from = 0;
      while (at < ranges.count) {
        const next = start + ranges.from(at) + filled - position;
        if (next >= chunk.length) break;
        from = Math.max(from, next);
        const count = chunk.copy(buffer, filled, from);
        filled += count;
        from += count;
        if (filled < buffer.length) break;
        if (isBigEndian) swap(buffer, type);
        yield;
        [filled, at] = [0, at + 1];
      }
      position += chunk.length;
      if (at === ranges.count && (!isToEnd || position > maxAfter)) return;
    }
    if (at < ranges.count) throw truncated(path.basename(named), inFile, Math.max(0, position - start));
  } catch (error) {
    if (error instanceof VolumeError) throw error;
    const { message, syscall } = error as NodeJS.ErrnoException;
    if (syscall) throw new VolumeError(`${path.basename(dataFiles[0])} cannot be read (${message}).`);
    throw notUnpacked(dataFiles[0], message);
  } finally {
    source.destroy();
    unpacker.destroy();
  }
}

/** Makes values of one frame from the bytes in a buffer, which is read into again and again. */
function decoderOf(stored: StoredVoxels, buffer: Buffer): (frame: number) => Voxels {
  const { type, isInterleaved, slope, intercept } = stored;
  const { bytes, array } = valueTypes[type];
  const raw = new array(buffer.buffer as ArrayBuffer);
  const isScaled = slope !== 1 || intercept !== 0;
  const isLong = raw instanceof BigInt64Array || raw instanceof BigUint64Array;
  if (!isScaled && !isLong && !isInterleaved) return () => raw as Voxels;
  const step = isInterleaved ? stored.frames : 1;
  const count = raw.length / step;
  const isPrecise = isLong || bytes === 8 || (bytes === 4 && type !== 'float32');
  const values: Voxels =
    isScaled || isLong ? new (isPrecise ? Float64Array : Float32Array)(count) : arrayLike(raw, count);
  return (frame) => {
    let from = isInterleaved ? frame : 0;
    if (isScaled)
      for (let at = 0; at < count; at += 1, from += step) values[at] = Number(raw[from]) * slope + intercept;
    else for (let at = 0; at < count; at += 1, from += step) values[at] = Number(raw[from]);
    return values;
  };
}

function swap(buffer: Buffer, type: ValueType): void {
  const { bytes } = valueTypes[type];
  if (bytes === 2) buffer.swap16();
  else if (bytes === 4) buffer.swap32();
  else if (bytes === 8) buffer.swap64();
}
