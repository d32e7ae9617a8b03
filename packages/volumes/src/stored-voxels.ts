import { createReadStream } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream';
import { createUnzip } from 'node:zlib';
import { isGzip, readBytes } from './headers/dicom-start.js';
import { isAffine } from './headers/nifti-forms.js';
import {
  type Affine,
  arrayLike,
  damaged,
  type Size,
  type Slice,
  type SliceChoice,
  swapBytes,
  TruncatedVolume,
  type ValueType,
  VolumeError,
  type VolumeFile,
  type VolumeHeader,
  type Voxels,
  valueTypes,
} from './volume.js';

/** Defaults that apply to the voxels of most headers. */
const usual = {
  packedFrom: 0,
  components: 1 as 1 | 3 | 4,
  isInterleaved: false,
  slope: 1,
  intercept: 0,
};

/** Where the voxels of a volume lie in a file, and how they are stored. */
export interface StoredVoxels {
  /** The file named in messages. */
  readonly path: string;
  /** The file with the voxels, or several unpacked files with the same number of slices each. */
  readonly dataFiles: readonly [string, ...string[]];
  /** Whether the file, or what follows `packedFrom`, is packed with gzip or zlib. */
  readonly isPacked: boolean;
  /** Bytes of the file before the packed data: 0 if the header is packed as well. */
  readonly packedFrom: number;
  /** Number of bytes of packed data, if the header gives it. */
  readonly packedBytes?: number;
  /** Bytes before the first voxel in each file, after unpacking; null if the voxels are at the end of the file. */
  readonly start: number | null;
  readonly type: ValueType;
  readonly isBigEndian: boolean;
  readonly size: Size;
  readonly components: 1 | 3 | 4;
  readonly frames: number;
  /** Whether the values of all frames are stored together for each voxel, instead of one frame after another. */
  readonly isInterleaved: boolean;
  readonly slope: number;
  readonly intercept: number;
}

/** What a header says about its voxels; `usual` provides the rest. */
export type VoxelsOfHeader = Omit<StoredVoxels, keyof typeof usual> & Partial<StoredVoxels>;

/**
 * The paths of the data files that a header names in its own directory.
 * @throws VolumeError for a name that leads out of it
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

/** Minimum and maximum bytes per unpacking step. More is no faster, and many masks may be read at the same time. */
const [minChunk, maxChunk] = [4096, 1 << 18];

/** Maximum size of a slice: in bytes with all interleaved frames, and in values of one frame (11,585 x 11,585). */
const [maxSlice, maxValues] = [2 ** 30, 2 ** 27];

/** Maximum number of slices, more than any scan has. Each costs time, however small it is. */
const maxSlices = 65_536;

/** Maximum number of bytes unpacked: about a minute's work. */
const maxUnpacked = 2 ** 35;

/** Maximum number of volumes, more than any file has. */
const maxFrames = 1_000_000;

/** Maximum number of bytes that one packed byte can become (deflate). */
const maxRatio = 1032;

const cut = (what: string): VolumeError => new TruncatedVolume(`${what} Copy it again from the original.`);

const truncated = (name: string, bytes: number, found: number): VolumeError =>
  cut(`${name} is cut short: its header says ${bytes} bytes of voxels, and ${found} are there.`);

export const notUnpacked = (file: string, why: string): VolumeError =>
  cut(`${path.basename(file)} is damaged or cut short: its packed data cannot be unpacked (${why}).`);

/** The bytes of one slice with all interleaved frames, and of all voxels in each file. */
function bytesOf(stored: StoredVoxels): { readonly slice: number; readonly inFile: number } {
  const { size, components, frames, isInterleaved, type, dataFiles } = stored;
  const slice = size[0] * size[1] * components * (isInterleaved ? frames : 1) * valueTypes[type].bytes;
  return { slice, inFile: (slice * size[2] * (isInterleaved ? 1 : frames)) / dataFiles.length };
}

/**
 * Refuses a header that claims more voxels than its file can hold, before memory is allocated for them.
 * @throws VolumeError
 */
async function requireVoxels(stored: StoredVoxels): Promise<void> {
  const { size, components, frames, type, isPacked, packedFrom, packedBytes, start, dataFiles } = stored;
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
        `${name} has its voxels in ${path.basename(file)}, which is missing: keep both files together.`,
      );
    if (!isPacked && found.size - (start ?? 0) < inFile)
      throw truncated(name, inFile, Math.max(0, found.size - (start ?? 0)));
    if (packedBytes && found.size - packedFrom < packedBytes)
      throw cut(
        `${name} is cut short: its header says ${packedBytes} packed bytes, and ${found.size - packedFrom} are there.`,
      );
    if (isPacked && inFile > found.size * maxRatio)
      throw cut(
        `${name} is cut short: its header says ${inFile} bytes of voxels, which are not in ${found.size} packed bytes.`,
      );
  }
}

/**
 * Checks that all packed voxels of a volume are present. They are unpacked only if neither the header nor the end of a gzip file
 * gives their size.
 * @throws VolumeError
 */
export async function requirePackedVoxels(stored: StoredVoxels): Promise<void> {
  const { dataFiles, isPacked, packedBytes, packedFrom, start, frames, size } = stored;
  if (!isPacked || packedBytes) return;
  const [file] = dataFiles;
  await using handle = await open(file);
  const { size: bytes } = await handle.stat();
  // A gzip file ends with the size of its content modulo 2^32.
  const unpacked = (await readBytes(handle, 4, bytes - 4)).readUInt32LE();
  const wanted = ((start ?? 0) + bytesOf(stored).inFile) % 2 ** 32;
  if (start !== null && unpacked === wanted && isGzip(await readBytes(handle, 2, packedFrom))) return;
  for await (const _ of storedPlanes(stored, [frames - 1], [size[2] - 1]));
}

/** A volume whose voxels lie in files as its header says. */
export interface StoredVolume extends VolumeFile {
  readonly stored: StoredVoxels;
}

/**
 * The volume that a header describes.
 * @param rows of its affine (RAS+)
 * @throws VolumeError for a file that is not whole, and for axes that do not span a space
 */
export async function storedVolume(
  given: VoxelsOfHeader,
  rows: readonly (readonly number[])[],
  header: Pick<VolumeHeader, 'format' | 'hasOrientation'> &
    Partial<Omit<VolumeHeader, 'size' | 'affine' | 'format' | 'hasOrientation' | 'components' | 'frames'>>,
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

/** Reads slices of one frame, scaled as the header says. */
async function* storedSlices(
  stored: StoredVoxels,
  { only, frame = 0 }: SliceChoice = {},
): AsyncGenerator<Slice, void, undefined> {
  requireFrame(stored, frame);
  const last = only?.at(-1) ?? 0;
  if (last >= stored.size[2])
    throw new VolumeError(
      `${path.basename(stored.path)} has ${stored.size[2]} slices: there is no slice ${last + 1}.`,
    );
  yield* storedPlanes(stored, [frame], only);
}

function requireFrame({ path: named, frames }: StoredVoxels, frame: number): void {
  if (!(frame >= 0 && frame < frames))
    throw new VolumeError(
      `${path.basename(named)} holds ${frames} volumes: there is no volume ${frame + 1}.`,
    );
}

/**
 * Reads the voxels of one frame, or of all frames one after another, in one pass over the file.
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

/** Reads slices of frames in storage order. */
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

/** Offsets of slices among the voxels of all files: a function, because a list may be too long. */
interface Ranges {
  readonly count: number;
  from(at: number): number;
}

/** Fills the buffer with each range of unpacked files in turn. */
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
      if (isBigEndian) swapBytes(buffer, valueTypes[type].bytes);
      yield;
    }
  } catch (error) {
    if (error instanceof VolumeError) throw error;
    throw new VolumeError(`${path.basename(named)} cannot be read (${(error as Error).message}).`);
  } finally {
    await opened?.handle.close();
  }
}

/** Fills the buffer with each range of a packed file in turn. Everything before the last range is unpacked. */
async function* packedPieces(
  stored: StoredVoxels,
  ranges: Ranges,
  buffer: Buffer,
): AsyncGenerator<void, void, undefined> {
  const { path: named, dataFiles, packedFrom, isBigEndian, type } = stored;
  const start = stored.start ?? 0;
  const { inFile } = bytesOf(stored);
  const pieceSize = Math.min(maxChunk, Math.max(minChunk, start + inFile));
  const source = createReadStream(dataFiles[0], { start: packedFrom, highWaterMark: pieceSize });
  const unpacker = createUnzip({ chunkSize: pieceSize });
  // The loop below sees the errors.
  pipeline(source, unpacker, () => {});
  // The checksum follows the last voxel. It is verified whenever the last voxel is read.
  const isToEnd = ranges.from(ranges.count - 1) + buffer.length === inFile;
  const maxAfter = start + inFile + maxChunk;
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
        if (isBigEndian) swapBytes(buffer, valueTypes[type].bytes);
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

/** Decodes the values of one frame from a buffer that is reused for every frame. */
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
    for (let at = 0; at < count; at += 1, from += step) {
      const value = Number(raw[from]);
      values[at] = isScaled ? value * slope + intercept : value;
    }
    return values;
  };
}
