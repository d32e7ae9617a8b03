import {
  dataLayoutOf,
  extensionBytes,
  type NiftiField,
  parseNiftiHeader,
  placeOfField,
} from '@remote-app/volumes/headers';
import { notUnderstood, type VolumeStart } from './volume-start.js';

/** The fields that a model needs: sizes, types, scales and geometry, all of them numbers. */
const kept: readonly NiftiField[] = [
  ...(['dim_info', 'dim', 'intent_p1, intent_p2, intent_p3', 'intent_code', 'datatype', 'bitpix'] as const),
  ...(['slice_start', 'pixdim', 'scl_slope, scl_inter', 'slice_end', 'slice_code', 'xyzt_units'] as const),
  ...(['cal_max, cal_min', 'slice_duration', 'toffset', 'qform_code, sform_code'] as const),
  ...(['quaternion and offset', 'srow_x, srow_y, srow_z'] as const),
];

/** The fields that are removed. */
const removed: readonly NiftiField[] = [
  ...(['data_type', 'db_name', 'extents, session_error', 'glmax, glmin'] as const),
  ...(['descrip', 'aux_file', 'intent_name', 'unused_str'] as const),
];

/**
 * Rewrites a NIfTI-1 or NIfTI-2 header with only the fields that a model needs.
 * @param start the first bytes of the file, unpacked
 * @throws UsageError for ANALYZE, and for a damaged header
 */
export function niftiStart(file: string, start: Buffer): VolumeStart {
  const parsed = parseNiftiHeader(start);
  if (!parsed) throw notUnderstood(file, 'its header is cut short');
  const { version, bytes, isBigEndian, isNifti, isPair } = parsed;
  if (!isNifti) throw notUnderstood(file, 'its header is one of ANALYZE 7.5');
  if (isPair && !/\.hdr(\.gz)?$/i.test(file))
    throw notUnderstood(file, 'its header says that its voxels are in another file');
  const layout = dataLayoutOf('volume.hdr', () => start);
  if (layout === null || layout.before === null) throw notUnderstood(file, 'its header has no sizes');
  const end = bytes + extensionBytes;
  const header = Buffer.alloc(end);
  const bytesOf = (name: NiftiField): Buffer => {
    const field = placeOfField(name, version);
    return start.subarray(field.offset, field.offset + field.bytes);
  };
  for (const name of [...kept, 'sizeof_hdr', 'magic'] as const)
    bytesOf(name).copy(header, placeOfField(name, version).offset);
  const offset = isPair ? 0 : end;
  const { offset: at } = placeOfField('vox_offset', version);
  if (version === 2) {
    if (isBigEndian) header.writeBigInt64BE(BigInt(offset), at);
    else header.writeBigInt64LE(BigInt(offset), at);
  } else {
    header.write('r', placeOfField('regular', version).offset, 'latin1');
    if (isBigEndian) header.writeFloatBE(offset, at);
    else header.writeFloatLE(offset, at);
  }
  const left = removed.filter((name) => bytesOf(name).some((byte) => byte !== 0));
  const hasExtensions = start.length > bytes && start[bytes] !== 0;
  return {
    kept,
    removed: hasExtensions ? [...left, 'extensions'] : left,
    dataFiles: isPair ? [] : null,
    // In a single file, an offset of 0 means that the voxels follow the header.
    before: isPair ? layout.before : Math.max(end, layout.before),
    from: 0,
    voxels: layout.voxels,
    packing: null,
    encode: () => header,
  };
}
