import { dataLayoutOf, parseMetaHeader } from '@remote-app/volumes/headers';
import {
  checkSlices,
  isOfNumbers,
  keptFields,
  notUnderstood,
  oneOf,
  type VolumeStart,
} from './volume-start.js';

const isTruth = (text: string): boolean => /^(true|false|t|f|1|0)$/i.test(text);

/** The keys that a model needs, with a test for their values. None of them is free text. */
const keys: Readonly<Record<string, (value: string) => boolean>> = {
  ObjectType: oneOf(/^Image$/i),
  NDims: isOfNumbers,
  BinaryData: isTruth,
  BinaryDataByteOrderMSB: isTruth,
  ElementByteOrderMSB: isTruth,
  CompressedData: isTruth,
  TransformMatrix: isOfNumbers,
  Rotation: isOfNumbers,
  Orientation: isOfNumbers,
  Offset: isOfNumbers,
  Position: isOfNumbers,
  Origin: isOfNumbers,
  CenterOfRotation: isOfNumbers,
  AnatomicalOrientation: oneOf(/^([RLAPIS]{1,4}|\?{1,4})$/),
  DistanceUnits: oneOf(/^(mm|um|cm|m|\?)$/),
  ElementSpacing: isOfNumbers,
  ElementSize: isOfNumbers,
  DimSize: isOfNumbers,
  Modality: oneOf(/^MET_MOD_(CT|MR|NM|US|OTHER|UNKNOWN)$/),
  SequenceID: isOfNumbers,
  ElementMin: isOfNumbers,
  ElementMax: isOfNumbers,
  ElementNumberOfChannels: isOfNumbers,
  ElementToIntensityFunctionSlope: isOfNumbers,
  ElementToIntensityFunctionOffset: isOfNumbers,
  ElementType: oneOf(/^MET_[A-Z_]+$/),
};

/** Keys that are rewritten. */
const replaced = new Set(['ElementDataFile', 'HeaderSize', 'CompressedDataSize']);

/**
 * Rewrites a MetaImage header with only the keys that a model needs.
 * @param start the first bytes of the file, with the whole header
 * @throws UsageError for a header that is not understood
 */
export function metaImageStart(file: string, start: Buffer): VolumeStart {
  const header = parseMetaHeader(start);
  const layout = dataLayoutOf('volume.mhd', () => start);
  if (header === null || layout === null) throw notUnderstood(file, 'its header is not complete');
  const { fields, end, dataFiles } = header;
  if (/^f/i.test(fields.get('BinaryData') ?? '')) throw notUnderstood(file, 'it holds its voxels as text');
  checkSlices(file, dataFiles, Number(fields.get('DimSize')?.split(/\s+/).at(-1)));
  const known = keptFields(file, fields, (key) => (Object.hasOwn(keys, key) ? keys[key] : undefined));
  const names = new Set(known.map(([key]) => key));
  const isPacked = layout.isPacked === true;
  const encode = (files: readonly string[], packed: number | null): Buffer => {
    const lines = known.map(([key, value]) => `${key} = ${value}`);
    if (packed !== null) lines.push(`CompressedDataSize = ${packed}`);
    const [only = 'LOCAL', ...others] = files;
    lines.push(`ElementDataFile = ${others.length > 0 ? 'LIST' : only}`);
    return Buffer.from(`${[...lines, ...(others.length > 0 ? files : [])].join('\n')}\n`);
  };
  return {
    kept: [...names],
    removed: [...fields.keys()].filter((key) => !names.has(key) && !replaced.has(key)),
    dataFiles,
    from: dataFiles === null ? end : 0,
    before: layout.before,
    voxels: layout.voxels,
    packing: isPacked ? 'zlib' : null,
    encode,
  };
}
