import { dataLayoutOf } from '@remote-app/volumes/headers';
import { notUnderstood, type VolumeStart } from './volume-start.js';

/** A field of a header: its name, and where it lies in NIfTI-1 and NIfTI-2. */
type Field = readonly [name: string, first: readonly [number, number], second: readonly [number, number]];

/** What a model needs: sizes, types, scales and geometry, all of them numbers. */
const kept: readonly Field[] = [
  ['dim_info', [39, 1], [524, 1]],
  ['dim', [40, 16], [16, 64]],
  ['intent_p1, intent_p2, intent_p3', [56, 12], [80, 24]],
  ['intent_code', [68, 2], [504, 4]],
  ['datatype', [70, 2], [12, 2]],
  ['bitpix', [72, 2], [14, 2]],
  ['slice_start', [74, 2], [224, 8]],
  ['pixdim', [76, 32], [104, 64]],
  ['scl_slope, scl_inter', [112, 8], [176, 16]],
  ['slice_end', [120, 2], [232, 8]],
  ['slice_code', [122, 1], [496, 4]],
  ['xyzt_units', [123, 1], [500, 4]],
  ['cal_max, cal_min', [124, 8], [192, 16]],
  ['slice_duration', [132, 4], [208, 8]],
  ['toffset', [136, 4], [216, 8]],
  ['qform_code, sform_code', [252, 4], [344, 8]],
  ['quaternion and offset', [256, 24], [352, 48]],
  ['srow_x, srow_y, srow_z', [280, 48], [400, 96]],
];

/** What is left out, in NIfTI-1 and NIfTI-2; NIfTI-2 does not have all of them. */
const removed: readonly (readonly [
  name: string,
  first: readonly [number, number] | null,
  second: readonly [number, number] | null,
])[] = [
  ['data_type', [4, 10], null],
  ['db_name', [14, 18], null],
  ['extents, session_error', [32, 6], null],
  ['glmax, glmin', [140, 8], null],
  ['descrip', [148, 80], [240, 80]],
  ['aux_file', [228, 24], [320, 24]],
  ['intent_name', [328, 16], [508, 16]],
  ['unused_str', null, [525, 15]],
];

/** Bytes behind a header that say whether extensions follow. */
const extensionMark = 4;

/**
 * A header of NIfTI-1 or NIfTI-2 with what a model needs alone.
 * @param start the first bytes of the file, unpacked
 * @throws UsageError for ANALYZE, and for a damaged header
 */
export function niftiStart(file: string, start: Buffer): VolumeStart {
  const isBig = [348, 540].includes(start.readInt32BE(0));
  const length = isBig ? start.readInt32BE(0) : start.readInt32LE(0);
  const isSecond = length === 540;
  if (start.length < length) throw notUnderstood(file, 'its header is cut short');
  const magic = start.toString('latin1', isSecond ? 4 : 344, isSecond ? 8 : 348);
  if (!/^n[+i][12]\0$/.test(magic)) throw notUnderstood(file, 'its header is one of ANALYZE 7.5');
  const layout = dataLayoutOf('volume.hdr', () => start);
  if (layout === null || layout.before === null) throw notUnderstood(file, 'its header has no sizes');
  const isPair = magic[1] === 'i';
  const end = length + extensionMark;
  const header = Buffer.alloc(end);
  const copy = ([at, bytes]: readonly [number, number]) => start.copy(header, at, at, at + bytes);
  for (const [, first, second] of kept) copy(isSecond ? second : first);
  copy([0, 4]);
  // The magic of NIfTI-2 has four bytes more, which show whether line ends were changed.
  copy(isSecond ? [4, 8] : [344, 4]);
  const offset = isPair ? 0 : end;
  if (isSecond) {
    if (isBig) header.writeBigInt64BE(BigInt(offset), 168);
    else header.writeBigInt64LE(BigInt(offset), 168);
  } else {
    header.write('r', 38, 'latin1');
    if (isBig) header.writeFloatBE(offset, 108);
    else header.writeFloatLE(offset, 108);
  }
  const isFilled = (range: readonly [number, number] | null) =>
    range !== null && start.subarray(range[0], range[0] + range[1]).some((byte) => byte !== 0);
  const left = removed.flatMap(([name, first, second]) =>
    isFilled(isSecond ? second : first) ? [name] : [],
  );
  const hasExtensions = start.length > length && start[length] !== 0;
  return {
    kept: kept.map(([name]) => name),
    removed: hasExtensions ? [...left, 'extensions'] : left,
    dataFiles: isPair ? [] : null,
    isPair,
    // An offset of 0 in a file of its own is that behind the header.
    before: isPair ? layout.before : Math.max(end, layout.before),
    from: 0,
    voxels: layout.voxels,
    packing: null,
    encode: () => header,
  };
}
