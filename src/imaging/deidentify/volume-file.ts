import { statSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import {
  beginsAsMetaImage,
  beginsAsNifti,
  beginsAsNrrd,
  isDicomStart,
  isGzip,
  maxHeader,
  unzippedStart,
} from '@remote-app/volumes/headers';
import type { PackedPiece } from '../../archive/index.js';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { bytesAt, firstBytes } from '../../files/index.js';
import { beginsAsFreeSurfer } from '../inputs/index.js';
import { freeSurferStart } from './free-surfer.js';
import { metaImageStart } from './meta-image.js';
import { niftiStart } from './nifti.js';
import { nrrdStart } from './nrrd.js';
import type { Repack } from './repack.js';
import { notUnderstood, type VolumeStart } from './volume-start.js';

/** What is sent of a file: pieces of it, or repacked data. */
export type Content = { readonly pieces: readonly PackedPiece[] } | { readonly repack: Repack };

/** A file as it is sent. */
export interface CleanedFile {
  /** Names of what was kept and removed, never values. */
  readonly kept: readonly string[];
  readonly removed: readonly string[];
  readonly content: Content;
}

/** Number of bytes read to recognise a format. */
const startBytes = 1 << 16;

/** The first bytes of a file, unpacked, and whether it is packed. */
interface Start {
  readonly bytes: Buffer;
  readonly isPacked: boolean;
}

function startOf(file: string): Start {
  const bytes = firstBytes(file, startBytes);
  if (!isGzip(bytes)) return { bytes, isPacked: false };
  try {
    return { bytes: unzippedStart(bytes), isPacked: true };
  } catch {
    throw notUnderstood(file, 'its packed data cannot be unpacked');
  }
}

/** Whether a file is DICOM, packed or not. */
export const isDicomFile = (file: string): boolean => isDicomStart(startOf(file).bytes);

/** The rewritten header of a volume, and whether the whole file is packed. Null for an unsupported format. */
function headerOf(file: string): { readonly header: VolumeStart; readonly isPacked: boolean } | null {
  const { bytes, isPacked } = startOf(file);
  const isText = (ending: RegExp) => ending.test(file) && !bytes.subarray(0, 64).includes(0);
  if (beginsAsNifti(bytes)) return { header: niftiStart(file, bytes), isPacked };
  if (beginsAsFreeSurfer(bytes)) return { header: freeSurferStart(file, bytes), isPacked };
  if (isPacked) return null;
  if (beginsAsNrrd(bytes)) return { header: nrrdStart(file, firstBytes(file, maxHeader)), isPacked };
  if (beginsAsMetaImage(bytes) || isText(/\.(mhd|mha)$/i))
    return { header: metaImageStart(file, firstBytes(file, maxHeader)), isPacked };
  return null;
}

/** Whether the voxels are in a file with the same name as the header. */
const isPair = ({ dataFiles }: VolumeStart): boolean => dataFiles?.length === 0;

/** Whether a file is a header that names its voxel files. */
export function namesFiles(file: string): boolean {
  if (!/\.(mhd|mha|nhdr|nrrd)$/i.test(file)) return false;
  const found = headerOf(file);
  return found !== null && found.header.dataFiles !== null;
}

const sizeOf = (file: string): number => statSync(file).size;

/** Range of the unpacked voxels in a file. @throws UsageError if the file is too short */
function rangeOf(file: string, before: number | null, take: number): { start: number; end: number } {
  const size = sizeOf(file);
  const start = before ?? size - take;
  if (start >= 0 && start + take <= size) return { start, end: start + take };
  throw new UsageError(
    `${quotePath(file)} is cut short: it has fewer voxels than its header says; copy it again from the original`,
  );
}

const nothing = Buffer.alloc(0);

const moreBytes = 'bytes behind the voxels';
const ofGzip = 'the header of gzip';

/** Prepares a file that contains both header and voxels. */
function wholeFile(file: string, header: VolumeStart, isPacked: boolean): CleanedFile {
  const { kept, removed, before, from, voxels, behind, packing, encode } = header;
  if (isPacked || packing !== null) {
    if (before === null) throw notUnderstood(file, 'its header does not say where its voxels begin');
    const inside = isPacked ? encode([], null) : nothing;
    const front = (packed: number) => (isPacked ? nothing : encode([], packing === 'zlib' ? packed : null));
    const to = packing ?? 'gzip';
    return {
      kept,
      removed: [...removed, ...(to === 'gzip' ? [ofGzip] : [])],
      content: { repack: { from, skip: before, take: voxels, inside, behind, to, front } },
    };
  }
  const range = rangeOf(file, before === null ? null : from + before, voxels);
  const tail = behind?.encode(bytesAt(file, range.end, behind.bytes)) ?? nothing;
  const left = range.end + tail.length < sizeOf(file) ? [...removed, moreBytes] : removed;
  return { kept, removed: left, content: { pieces: [encode([], null), range, tail] } };
}

/**
 * Prepares a file that is a whole volume, or the header of one.
 * @param nameOf the name under which a voxel file is sent; null if it is not sent
 * @throws UsageError for a file that is not understood
 */
export function cleanedVolume(file: string, nameOf: (data: string) => string | null): CleanedFile {
  const found = headerOf(file);
  if (found === null)
    throw notUnderstood(file, 'its format is none that is understood: DICOM, NIfTI, NRRD, MetaImage, MGH');
  const { header, isPacked } = found;
  const { dataFiles, kept, removed, encode } = header;
  if (dataFiles === null) return wholeFile(file, header, isPacked);
  const names = dataFiles.map((each) => {
    const name = nameOf(path.resolve(path.dirname(file), each));
    if (name === null) throw notUnderstood(file, `it names ${quotePath(each)}, which is not sent with it`);
    return name;
  });
  const bytes = encode(names, null);
  // The header of a pair ends with the extension flag.
  const piece = isPacked ? gzipSync(bytes) : bytes;
  const isLonger = isPair(header) && !isPacked && sizeOf(file) > bytes.length;
  const left = isLonger ? [...new Set([...removed, 'extensions'])] : removed;
  return { kept, removed: isPacked ? [...left, ofGzip] : left, content: { pieces: [piece] } };
}

/** Prepares a voxel file that belongs to a header. @throws UsageError for a file that is not understood */
export function cleanedVoxels(file: string, headerFile: string): CleanedFile {
  const found = headerOf(headerFile);
  if (found === null || found.header.dataFiles === null)
    throw notUnderstood(file, `its header ${quotePath(headerFile)} is none that is understood`);
  const { dataFiles, before, voxels, packing: said } = found.header;
  const packing = isPair(found.header) && isGzip(firstBytes(file, 2)) ? 'gzip' : said;
  const take = voxels / (dataFiles.length || 1);
  const kept = ['voxels'];
  if (packing === null) {
    const range = rangeOf(file, before, take);
    const removed = [
      ...(range.start > 0 ? ['bytes before the voxels'] : []),
      ...(range.end < sizeOf(file) ? [moreBytes] : []),
    ];
    return { kept, removed, content: { pieces: [range] } };
  }
  if (before === null) throw notUnderstood(file, 'its header does not say where its voxels begin');
  const how = { from: 0, skip: before, take, inside: nothing, to: packing, front: () => nothing };
  return { kept, removed: packing === 'gzip' ? [ofGzip] : [], content: { repack: how } };
}
