import { expect, test } from 'vitest';
import {
  type DicomElement,
  encodeElements,
  fileStart,
  implicitLittleEndian,
} from '../../src/volumes/dicom-write.js';
import { parse } from './study.js';

const sopClass = '1.2.840.10008.5.1.4.1.1.481.3';

/** More text than a length of two bytes can say. */
const long = Array.from({ length: 10_000 }, (_, at) => String(at / 8)).join('\\');

const elements: readonly DicomElement[] = [
  ['30060039', 'SQ', [[['30060040', 'SQ', [[['30060050', 'DS', long]], []]]]]],
  ['00080060', 'CS', 'RTSTRUCT'],
  ['00280010', 'US', 512],
];

test('texts of any length are written without value representations, inside sequences as well', () => {
  const bytes = Buffer.concat([
    fileStart({ syntax: implicitLittleEndian, sopClass, sopInstance: '2.25.1' }),
    encodeElements(elements, implicitLittleEndian),
  ]);
  const set = parse(bytes);
  expect([set.string('x00020010'), set.string('x00080060'), set.uint16('x00280010')]).toEqual([
    implicitLittleEndian,
    'RTSTRUCT',
    512,
  ]);
  const [first, second] = set.elements.x30060039?.items?.[0]?.dataSet?.elements.x30060040?.items ?? [];
  expect(first?.dataSet?.string('x30060050')).toBe(long);
  expect(Object.keys(second?.dataSet?.elements ?? {})).toEqual([]);
});

test('such a text is refused where its length has two bytes', () => {
  expect(() => encodeElements(elements)).toThrow(/30060050 \(DS\) of \d+ bytes is too long/);
});
