import parser from 'dicom-parser';
import type { PixelData } from '../src/dicom-elements.js';
import { pixelFormatOf } from '../src/dicom-pixels.js';
import { type DicomElement, encodeElements, explicitLittleEndian, fileStart } from '../src/dicom-write.js';

export const bigEndian = '1.2.840.10008.1.2.2';

export type Changes = Readonly<Record<string, DicomElement | null>>;
export interface Given {
  readonly syntax?: string;
  readonly pixels?: Partial<PixelData> | null;
  readonly isIndexed?: boolean;
}

/** An image of 3 x 2 values of 16 bits with a sign, but for what is changed or left out. */
const usual: Changes = {
  '00280002': ['00280002', 'US', 1],
  '00280004': ['00280004', 'CS', 'MONOCHROME2'],
  '00280010': ['00280010', 'US', 2],
  '00280011': ['00280011', 'US', 3],
  '00280100': ['00280100', 'US', 16],
  '00280101': ['00280101', 'US', 16],
  '00280102': ['00280102', 'US', 15],
  '00280103': ['00280103', 'US', 1],
};
export const bits = (allocated: number, stored = allocated, high = stored - 1, sign = 0): Changes => ({
  '00280100': ['00280100', 'US', allocated],
  '00280101': ['00280101', 'US', stored],
  '00280102': ['00280102', 'US', high],
  '00280103': ['00280103', 'US', sign],
});
export const size = (columns: number, rows: number, frames = 1): Changes => ({
  '00280008': ['00280008', 'IS', String(frames)],
  '00280010': ['00280010', 'US', rows],
  '00280011': ['00280011', 'US', columns],
});
export const colours = (photometric: string | null, planar = 0, samples = 3): Changes => ({
  '00280002': ['00280002', 'US', samples],
  '00280004': photometric === null ? null : ['00280004', 'CS', photometric],
  '00280006': ['00280006', 'US', planar],
});
export const uncompressed: PixelData = { vr: 'OW', offset: 0, length: 1000, fragments: null, table: [] };

export function formatOf(
  changes: Changes,
  { syntax = explicitLittleEndian, pixels = {}, isIndexed }: Given = {},
) {
  const elements = Object.values({ ...usual, ...changes }).filter((each) => each !== null);
  const start = fileStart({ sopClass: '1.2', sopInstance: '1.3' });
  const set = parser.parseDicom(Buffer.concat([start, encodeElements(elements)]));
  const data = pixels && { ...uncompressed, ...pixels };
  return pixelFormatOf('f', { set, syntax, deflatedFrom: null, pixels: data, excess: 0 }, isIndexed);
}
