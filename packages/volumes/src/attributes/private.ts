import { type Attribute, type AttributeGroup, readTable, tagText } from './table.js';

/**
 * Private attributes without which an image cannot be used: diffusion b-values and directions, mosaic slices, Philips scales, the
 * start time for GE decay correction. PS3.15 lists most of them as safe (Table E.3.10-1). Grouped by creator, with 00 in place of
 * the block that a file reserves for the creator.
 */
const byCreator: Readonly<Record<string, string>> = {
  'SIEMENS MR HEADER': `
    0019000a US NumberOfImagesInMosaic
    0019000b DS SliceMeasurementDuration
    0019000c IS B_value
    0019000d CS DiffusionDirectionality: DIRECTIONAL | BMATRIX | ISOTROPIC | NONE ?!
    0019000e FD DiffusionGradientDirection
    00190027 FD B_matrix
    00190028 FD BandwidthPerPixelPhaseEncode
    00190029 FD MosaicRefAcqTimes*`,
  'SIEMENS CSA HEADER': `
    00290010 OB CSAImageHeaderInfo: csa`,
  GEMS_ACQU_01: `
    001900bb DS DiffusionDirectionX
    001900bc DS DiffusionDirectionY
    001900bd DS DiffusionDirectionZ`,
  GEMS_PARM_01: `
    00430039 IS B_value`,
  GEMS_PETD_01: `
    0009000d DT ScanDateTime`,
  'Philips Imaging DD 001': `
    20010003 FL DiffusionBFactor
    20010004 CS DiffusionDirection: /[A-Z]{1,2}/`,
  'Philips MR Imaging DD 001': `
    2005000d FL ScaleIntercept
    2005000e FL ScaleSlope
    200500b0 FL DiffusionDirectionRL
    200500b1 FL DiffusionDirectionAP
    200500b2 FL DiffusionDirectionFH`,
  'Philips MR Imaging DD 005': `
    2005000f SQ PrivatePerFrameSequence`,
  'Philips PET Private Group': `
    70530000 DS SUVScaleFactor
    70530009 DS ActivityConcentrationScaleFactor`,
  'Image Private Header': `
    00650009 FD DiffusionBValue
    00650037 FD DiffusionGradientDirection`,
};

const groupOf = (rows: string): AttributeGroup => ({
  reason: 'Private attributes by which an image is understood: diffusion, mosaics, scales.',
  option: 'Retain Safe Private',
  isNeeded: true,
  rows,
});

const tables = new Map(
  Object.entries(byCreator).map(([creator, rows]) => [
    creator,
    new Map(readTable([groupOf(rows)], {}).map((row) => [row.tag, row])),
  ]),
);

/**
 * A private attribute that may leave; undefined for any other.
 * @param tag as eight hexadecimal digits, with the block that the file reserves for the creator
 */
export function privateAttribute(creator: string, tag: string): Attribute | undefined {
  const row = tables.get(creator)?.get(`${tag.slice(0, 4)}00${tag.slice(6)}`);
  return row && { ...row, tag, name: `${row.name.split(' ')[0]} ${tagText(tag)}` };
}

/** The fields kept of a Siemens CSA header, with their value representations: numbers, and one word. */
const ofCsa = new Map(
  Object.entries({
    B_matrix: 'FD',
    B_value: 'IS',
    BandwidthPerPixelPhaseEncode: 'FD',
    DiffusionDirectionality: 'CS',
    DiffusionGradientDirection: 'FD',
    MosaicRefAcqTimes: 'FD',
    NumberOfImagesInMosaic: 'US',
    PhaseEncodingDirectionPositive: 'IS',
    ProtocolSliceNumber: 'IS',
    SliceMeasurementDuration: 'DS',
    SliceNormalVector: 'FD',
  }),
);

const csaValue = /^(?:[-+\d.eE]{1,32}|DIRECTIONAL|BMATRIX|ISOTROPIC|NONE)$/;
/** Bytes of the start of a header, of the head of a tag, and of the head of an item. */
const [csaStart, csaTag, csaItem] = [16, 84, 16];
/** Maximum number of tags in a header, and of items in a tag: an image has about 100 tags, and one item for each slice. */
const maxCsa = 1024;
const signature = Buffer.from('SV10\u0004\u0003\u0002\u0001', 'latin1');
/** Separates the fields. */
const mark = 77;

/** The tags of a CSA header with their values; null for one that cannot be read. */
function csaTags(bytes: Buffer): Map<string, string[]> | null {
  if (bytes.length < csaStart || !bytes.subarray(0, 8).equals(signature)) return null;
  const tags = new Map<string, string[]>();
  const count = bytes.readUInt32LE(8);
  if (count > maxCsa) return null;
  let at = csaStart;
  for (let tag = 0; tag < count; tag += 1) {
    if (at + csaTag > bytes.length) return null;
    const [name = ''] = bytes.toString('latin1', at, at + 64).split('\0');
    const items = bytes.readUInt32LE(at + 76);
    if (items > maxCsa) return null;
    at += csaTag;
    const values: string[] = [];
    for (let item = 0; item < items; item += 1) {
      if (at + csaItem > bytes.length) return null;
      const length = bytes.readUInt32LE(at + 4);
      at += csaItem;
      if (at + length > bytes.length) return null;
      const [text = ''] = bytes.toString('latin1', at, at + length).split('\0');
      if (text.trim() !== '') values.push(text.trim());
      at += Math.ceil(length / 4) * 4;
    }
    tags.set(name, values);
  }
  return tags;
}

const words = (...numbers: readonly number[]): Buffer => Buffer.from(Uint32Array.from(numbers).buffer);

/**
 * Rewrites a Siemens CSA header with only the numbers that readers need. A header written by this function is returned unchanged.
 * @returns null for one that cannot be read
 */
export function neutralCsa(
  bytes: Buffer,
): { readonly bytes: Buffer; readonly names: readonly string[] } | null {
  const tags = csaTags(bytes);
  if (!tags) return null;
  // The order is kept, because dcm2niix reads the slice times correctly only if the number of slices comes first.
  const kept = [...tags].flatMap(([name, values]) => {
    const vr = ofCsa.get(name);
    return vr && values.length > 0 && values.every((each) => csaValue.test(each))
      ? [{ name, vr, values }]
      : [];
  });
  const parts = kept.flatMap(({ name, vr, values }) => {
    const head = Buffer.alloc(csaTag);
    head.write(name, 'latin1');
    words(values.length).copy(head, 64);
    head.write(vr, 68, 'latin1');
    words(0, values.length, mark).copy(head, 72);
    const items = values.flatMap((value) => {
      const text = Buffer.alloc(Math.ceil((value.length + 1) / 4) * 4);
      text.write(value, 'latin1');
      const length = value.length + 1;
      return [words(length, length, mark, length), text];
    });
    return [head, ...items];
  });
  return {
    bytes: Buffer.concat([signature, words(kept.length, mark), ...parts]),
    names: kept.map(({ name }) => name),
  };
}
