import { dataLayoutOf, parseNrrdHeader } from '@remote-app/volumes/headers';
import {
  checkSlices,
  isOfNumbers,
  keptFields,
  notUnderstood,
  oneOf,
  type VolumeStart,
} from './volume-start.js';

/** Tests for words that all match one pattern, separated by spaces. */
const wordsOf = (word: string) => oneOf(new RegExp(`^(${word})(\\s+(${word}))*$`, 'i'));

const lengths = '"?(mm|cm|m|um|µm|μm|microns?|nm|s|ms|seconds?|)"?';
const kinds =
  'domain|space|time|list|point|vector|covariant-vector|normal|stub|scalar|complex|none|\\?\\?\\?|' +
  '(RGB|HSV|XYZ|RGBA)-color|(2|3|4)-(color|vector|gradient|normal)|4-color|quaternion|' +
  '2D-(masked-)?(symmetric-)?matrix|3D-(masked-)?(symmetric-)?matrix';
const directions =
  '(right|left)-(anterior|posterior)-(superior|inferior)(-time)?|[RL][AP][SI]T?|' +
  'scanner-xyz(-time)?|3D-(right|left)-handed(-time)?';

/** The fields that a model needs, by name without spaces: how the name is written, and a test for the value. */
const known: Readonly<Record<string, readonly [name: string, isAllowed: (value: string) => boolean]>> = {
  dimension: ['dimension', isOfNumbers],
  type: ['type', oneOf(/^[a-z0-9_ ]{1,24}$/i)],
  blocksize: ['block size', isOfNumbers],
  encoding: ['encoding', oneOf(/^(raw|gz|gzip)$/i)],
  endian: ['endian', oneOf(/^(big|little)$/i)],
  sizes: ['sizes', isOfNumbers],
  spacings: ['spacings', isOfNumbers],
  thicknesses: ['thicknesses', isOfNumbers],
  axismins: ['axis mins', isOfNumbers],
  axismaxs: ['axis maxs', isOfNumbers],
  centers: ['centers', wordsOf('cell|node|none|\\?\\?\\?')],
  centerings: ['centerings', wordsOf('cell|node|none|\\?\\?\\?')],
  kinds: ['kinds', wordsOf(kinds)],
  units: ['units', wordsOf(lengths)],
  min: ['min', isOfNumbers],
  max: ['max', isOfNumbers],
  oldmin: ['old min', isOfNumbers],
  oldmax: ['old max', isOfNumbers],
  space: ['space', oneOf(new RegExp(`^(${directions})$`, 'i'))],
  spacedimension: ['space dimension', isOfNumbers],
  spaceunits: ['space units', wordsOf(lengths)],
  spaceorigin: ['space origin', isOfNumbers],
  spacedirections: ['space directions', isOfNumbers],
  measurementframe: ['measurement frame', isOfNumbers],
  sampleunits: ['sample units', oneOf(/^"?(HU|Hounsfield( units?)?|mm|s|ms|Bq\/ml|g\/ml|SUV)"?$/i)],
};

/** Key/value pairs with the diffusion weighting (b-value and direction) of each image. */
const ofDiffusion = /^DWMRI_(?:b-value|gradient_\d+|NEX_\d+|B-matrix_\d+)$/;
const isKeptPair = (key: string, value: string): boolean =>
  ofDiffusion.test(key) ? isOfNumbers(value) : key === 'modality' && value === 'DWMRI';

/** Fields that are rewritten. */
const replaced = new Set(['datafile', 'byteskip', 'lineskip']);

/**
 * Rewrites an NRRD header with only the fields that a model needs.
 * @param start the first bytes of the file, with the whole header
 * @throws UsageError for a header that is not understood
 */
export function nrrdStart(file: string, start: Buffer): VolumeStart {
  const { fields, pairs, end, dataFiles, isWhole } = parseNrrdHeader(start);
  const layout = dataLayoutOf('volume.nrrd', () => start);
  // A detached header may end at the end of the file.
  if (layout === null || (!isWhole && dataFiles === null))
    throw notUnderstood(file, `its header is not complete, or its voxels are not encoded as raw or gzip`);
  checkSlices(file, dataFiles, Number(fields.get('sizes')?.split(/\s+/).at(-1)));
  const kept = keptFields(file, fields, (key) => (Object.hasOwn(known, key) ? known[key]?.[1] : undefined));
  const nameOf = (key: string): string => known[key]?.[0] ?? key;
  const keys = new Set(kept.map(([key]) => key));
  if (fields.has('space') && !keys.has('space'))
    throw notUnderstood(file, 'the directions of its space are written in an unknown way');
  const left = [...fields.keys()].filter((key) => !keys.has(key) && !replaced.has(key)).map(nameOf);
  const told = [...(pairs ?? [])].filter(([key, value]) => isKeptPair(key, value));
  const text = start.toString('latin1', 0, end);
  const encode = (files: readonly string[]): Buffer => {
    const lines = ['NRRD0005', ...kept.map(([key, value]) => `${nameOf(key)}: ${value}`)];
    lines.push(...told.map(([key, value]) => `${key}:=${value}`));
    if (files.length === 1) lines.push(`data file: ${files[0]}`);
    if (files.length > 1) lines.push('data file: LIST', ...files);
    return Buffer.from(`${lines.join('\n')}\n${files.length > 1 ? '' : '\n'}`, 'latin1');
  };
  return {
    kept: [...[...keys].map(nameOf), ...told.map(([key]) => key)],
    removed: [
      ...left,
      ...[...(pairs?.keys() ?? [])].filter((key) => !told.some(([each]) => each === key)),
      ...(/^#/m.test(text) ? ['comments'] : []),
    ],
    dataFiles,
    from: dataFiles === null ? end : 0,
    before: layout.before,
    voxels: layout.voxels,
    packing: layout.isPacked ? 'gzip' : null,
    encode,
  };
}
