import { hasMagic } from './dicom-start.js';

/**
 * Header fields by the names in the standard (https://nifti.nimh.nih.gov): offset and bytes in NIfTI-1, then in NIfTI-2; 0 bytes
 * if a version does not have the field. ANALYZE has the sizes and types of NIfTI-1, but no directions.
 */
const niftiFields = {
  sizeof_hdr: [0, 4, 0, 4],
  data_type: [4, 10, 0, 0],
  db_name: [14, 18, 0, 0],
  'extents, session_error': [32, 6, 0, 0],
  regular: [38, 1, 0, 0],
  dim_info: [39, 1, 524, 1],
  dim: [40, 16, 16, 64],
  'intent_p1, intent_p2, intent_p3': [56, 12, 80, 24],
  intent_code: [68, 2, 504, 4],
  datatype: [70, 2, 12, 2],
  bitpix: [72, 2, 14, 2],
  slice_start: [74, 2, 224, 8],
  pixdim: [76, 32, 104, 64],
  vox_offset: [108, 4, 168, 8],
  'scl_slope, scl_inter': [112, 8, 176, 16],
  slice_end: [120, 2, 232, 8],
  slice_code: [122, 1, 496, 4],
  xyzt_units: [123, 1, 500, 4],
  'cal_max, cal_min': [124, 8, 192, 16],
  slice_duration: [132, 4, 208, 8],
  toffset: [136, 4, 216, 8],
  'glmax, glmin': [140, 8, 0, 0],
  descrip: [148, 80, 240, 80],
  aux_file: [228, 24, 320, 24],
  'qform_code, sform_code': [252, 4, 344, 8],
  'quaternion and offset': [256, 24, 352, 48],
  'srow_x, srow_y, srow_z': [280, 48, 400, 96],
  intent_name: [328, 16, 508, 16],
  unused_str: [0, 0, 525, 15],
  // In NIfTI-2, four more bytes show whether line ends were changed.
  magic: [344, 4, 4, 8],
} as const;

export type NiftiField = keyof typeof niftiFields;

/** Offset and bytes of a field in a version of NIfTI. */
export function placeOfField(
  name: NiftiField,
  version: 1 | 2,
): { readonly offset: number; readonly bytes: number } {
  const [offset1, bytes1, offset2, bytes2] = niftiFields[name];
  return version === 1 ? { offset: offset1, bytes: bytes1 } : { offset: offset2, bytes: bytes2 };
}

/** Header bytes in NIfTI-1 (and ANALYZE) and in NIfTI-2. Files begin with this number. */
const headerBytes = { 1: 348, 2: 540 } as const;

/** Bits per voxel by data type. Readers rely on the type, because writers sometimes leave `bitpix` wrong. */
const bitsOfType: Readonly<Record<number, number>> = {
  ...{ 1: 1, 2: 8, 256: 8, 4: 16, 512: 16, 128: 24, 8: 32, 16: 32, 768: 32, 2304: 32 },
  ...{ 32: 64, 64: 64, 1024: 64, 1280: 64, 1536: 128, 1792: 128, 2048: 256 },
};

/** Bytes after a header that say whether extensions follow. */
export const extensionBytes = 4;

/** The contents of a header. */
export interface NiftiHeader {
  readonly version: 1 | 2;
  /** Length of the header, without the extension bytes. */
  readonly bytes: number;
  readonly isBigEndian: boolean;
  /** False for ANALYZE. */
  readonly isNifti: boolean;
  /** Whether its voxels are in a separate file. */
  readonly isPair: boolean;
  /** The number of dimensions, and the size along each. */
  readonly dim: readonly number[];
  readonly datatype: number;
  /** Bits per voxel. */
  readonly bits: number;
  readonly pixdim: readonly number[];
  readonly voxOffset: number;
  /** Of ANALYZE, the scale of SPM. */
  readonly slope: number;
  readonly intercept: number;
  readonly units: number;
  readonly qformCode: number;
  readonly sformCode: number;
  /** b, c, d, then the place of voxel (0, 0, 0). */
  readonly quaternion: readonly number[];
  /** Three rows of four. */
  readonly srows: readonly number[];
}

function versionOf(start: Buffer): { version: 1 | 2; isBigEndian: boolean } | null {
  if (start.length < headerBytes[1]) return null;
  for (const isBigEndian of [false, true])
    for (const version of [1, 2] as const)
      if ((isBigEndian ? start.readInt32BE(0) : start.readInt32LE(0)) === headerBytes[version])
        return { version, isBigEndian };
  return null;
}

/** Whether a file begins like NIfTI or ANALYZE. The preamble of a DICOM file may begin with the same bytes. */
export const beginsAsNifti = (start: Buffer): boolean => versionOf(start) !== null && !hasMagic(start);

/**
 * Reads a header of NIfTI-1, NIfTI-2 or ANALYZE.
 * @param start the first bytes of the file, unpacked
 * @returns null for another format, and for a truncated header
 */
export function parseNiftiHeader(start: Buffer): NiftiHeader | null {
  const found = versionOf(start);
  if (!found || start.length < headerBytes[found.version]) return null;
  const { version, isBigEndian } = found;
  const view = new DataView(start.buffer, start.byteOffset, start.length);
  /** The numbers of a field: their offsets, and how many bytes each has. */
  const split = (name: NiftiField, count: number) => {
    const { offset, bytes } = placeOfField(name, version);
    return Array.from({ length: count }, (_, at) => [offset + (at * bytes) / count, bytes / count] as const);
  };
  const integers = (name: NiftiField, count = 1) =>
    split(name, count).map(([at, bytes]) => {
      if (bytes === 8) return Number(view.getBigInt64(at, !isBigEndian));
      if (bytes === 4) return view.getInt32(at, !isBigEndian);
      return bytes === 2 ? view.getInt16(at, !isBigEndian) : view.getUint8(at);
    });
  const reals = (name: NiftiField, count = 1) =>
    split(name, count).map(([at, bytes]) =>
      bytes === 8 ? view.getFloat64(at, !isBigEndian) : view.getFloat32(at, !isBigEndian),
    );
  const { offset: magicAt } = placeOfField('magic', version);
  const magic = start.toString('latin1', magicAt, magicAt + 3);
  const isNifti = /^n[+i][12]$/.test(magic);
  const [slope = 1, given = 0] = reals('scl_slope, scl_inter', 2);
  const [qformCode = 0, sformCode = 0] = isNifti ? integers('qform_code, sform_code', 2) : [];
  const first = ([value = 0]: readonly number[]) => value;
  const datatype = first(integers('datatype'));
  return {
    version,
    bytes: headerBytes[version],
    isBigEndian,
    isNifti,
    isPair: magic[1] !== '+' || !isNifti,
    dim: integers('dim', 8),
    datatype,
    bits: bitsOfType[datatype] ?? first(integers('bitpix')),
    pixdim: reals('pixdim', 8),
    voxOffset: first(version === 1 ? reals('vox_offset') : integers('vox_offset')),
    slope,
    intercept: isNifti ? given : 0,
    units: first(integers('xyzt_units')),
    qformCode,
    sformCode,
    quaternion: reals('quaternion and offset', 6),
    srows: reals('srow_x, srow_y, srow_z', 12),
  };
}
