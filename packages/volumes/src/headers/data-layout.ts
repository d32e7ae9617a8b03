import path from 'node:path';
import { type ValueType, valueTypes } from '../volume.js';
import type { Read } from './data-files.js';
import { isGzip, unzippedStart } from './dicom-start.js';
import { parseNiftiHeader } from './nifti-layout.js';
import { metaTypeOf, nrrdTypeOf, parseMetaHeader, parseNrrdHeader } from './text-headers.js';

/** How a header describes its voxel files. */
export interface DataLayout {
  /** Bytes of all voxels in all files, unpacked. */
  readonly voxels: number;
  /** Bytes before the voxels in each file, unpacked; null if unknown. */
  readonly before: number | null;
  /** Whether the files are packed with gzip or zlib; null if only their names show it. */
  readonly isPacked: boolean | null;
}

/** Maximum number of bytes read of a header. */
const maxRead = 1 << 20;

const product = (counts: readonly number[]): number => counts.reduce((all, count) => all * count, 1);

const numbersIn = (text: string | undefined): number[] =>
  (text ?? '')
    .trim()
    .split(/\s+/)
    .filter((word) => word !== '')
    .map(Number);

/** A layout; null if a number in it is invalid. */
function layout(voxels: number, before: number | null, isPacked: boolean | null = false): DataLayout | null {
  const isKnown = Number.isSafeInteger(voxels) && voxels > 0;
  return isKnown && (before === null || Number.isSafeInteger(before)) ? { voxels, before, isPacked } : null;
}

function ofMetaImage(read: Read): DataLayout | null {
  const fields = parseMetaHeader(read(maxRead))?.fields;
  if (!fields) return null;
  const bytes = bytesOf(metaTypeOf(fields.get('ElementType')));
  const count = product(numbersIn(fields.get('DimSize')));
  const channels = Number(fields.get('ElementNumberOfChannels') ?? 1);
  const before = Number(fields.get('HeaderSize') ?? 0);
  const isPacked = /^t/i.test(fields.get('CompressedData') ?? '');
  return layout(count * channels * bytes, before === -1 ? null : before, isPacked);
}

const bytesOf = (type: ValueType | undefined): number => (type ? valueTypes[type].bytes : Number.NaN);

function ofNrrd(read: Read): DataLayout | null {
  const { fields } = parseNrrdHeader(read(maxRead));
  const type = fields.get('type');
  const bytes = type === 'block' ? Number(fields.get('blocksize')) : bytesOf(nrrdTypeOf(type));
  const encoding = (fields.get('encoding') ?? 'raw').toLowerCase();
  const isPacked = ['gz', 'gzip'].includes(encoding);
  // The header does not give the size in bytes of voxels stored as text, or of lines before the voxels.
  if ((!isPacked && encoding !== 'raw') || Number(fields.get('lineskip') ?? 0) > 0) return null;
  const before = Number(fields.get('byteskip') ?? 0);
  const count = product(numbersIn(fields.get('sizes')));
  return layout(count * bytes, before === -1 ? null : before, isPacked);
}

function ofNifti(read: Read): DataLayout | null {
  let start = read(4096);
  try {
    if (isGzip(start)) start = unzippedStart(start);
  } catch {
    return null;
  }
  const header = parseNiftiHeader(start);
  if (!header) return null;
  const [dimensions = 0, ...sizes] = header.dim;
  if (!(dimensions >= 1 && dimensions <= 7)) return null;
  const voxels = product(sizes.slice(0, dimensions).map((size) => Math.max(1, size)));
  return layout(Math.ceil((voxels * header.bits) / 8), Math.max(0, header.voxOffset), null);
}

/** PAR of Philips: a line of numbers for each image, or up to version 3 one size for all images. */
function ofPar(read: Read): DataLayout | null {
  const text = read(maxRead * 4).toString('latin1');
  const images = text
    .split('\n')
    .filter((line) => /^\s*-?\d/.test(line))
    .map(numbersIn);
  const general = (name: RegExp) =>
    numbersIn(new RegExp(`^\\.[ \\t]*${name.source}[^:\\n]*:(.*)$`, 'im').exec(text)?.[1]);
  const [bits] = general(/Image pixel size/);
  const [columns = Number.NaN, rows = Number.NaN] = general(/Recon resolution/);
  const bytes = images.map((image) =>
    bits === undefined
      ? ((image[7] ?? Number.NaN) / 8) * (image[9] ?? Number.NaN) * (image[10] ?? Number.NaN)
      : (bits / 8) * columns * rows,
  );
  return layout(
    bytes.reduce((sum, each) => sum + each, 0),
    0,
  );
}

/** Bytes per value of AFNI's types: byte, short, int, float, double, complex, RGB. */
const afniBytes = [1, 2, 4, 4, 8, 8, 3];

function ofAfni(read: Read): DataLayout | null {
  const text = read(maxRead * 4).toString('latin1');
  const attribute = (name: string) =>
    numbersIn(new RegExp(`name\\s*=\\s*${name}\\s+count\\s*=\\s*\\d+([-\\d\\s]*)`).exec(text)?.[1]);
  const [columns = Number.NaN, rows = Number.NaN, slices = Number.NaN] = attribute('DATASET_DIMENSIONS');
  const bytes = attribute('BRICK_TYPES').map((type) => afniBytes[type] ?? Number.NaN);
  const sum = bytes.reduce((all, each) => all + each, 0);
  return layout(columns * rows * slices * sum, 0, null);
}

const readers: readonly (readonly [RegExp, (read: Read) => DataLayout | null])[] = [
  [/\.(mhd|mha)$/i, ofMetaImage],
  [/\.(nhdr|nrrd)$/i, ofNrrd],
  [/\.hdr(\.gz)?$/i, ofNifti],
  [/\.par$/i, ofPar],
  [/\.head$/i, ofAfni],
];

/** How a header describes its voxel files; null if it does not give their size. */
export const dataLayoutOf = (header: string, read: Read): DataLayout | null =>
  readers.find(([names]) => names.test(path.basename(header)))?.[1](read) ?? null;
