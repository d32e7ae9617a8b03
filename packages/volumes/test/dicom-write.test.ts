import parser from 'dicom-parser';
import { describe, expect, test } from 'vitest';
import {
  type DicomElement,
  type DicomSyntax,
  decimalString,
  elementStart,
  encodeElements,
  fileStart,
} from '../src/dicom-write.js';
import { syntaxes } from '../src/headers/dicom-walk.js';

const elements: DicomElement[] = [
  ['00280010', 'US', 513],
  ['00080060', 'CS', 'MR'],
  ['00200032', 'DS', [1 / 3, -2, 1e-20]],
  ['00089215', 'SQ', [[['00080100', 'SH', '113100']], [], [['00280011', 'US', [1, 2]]]]],
  ['00209165', 'AT', '00209056'],
  ['00189087', 'FD', 1000.5],
  ['00281101', 'SS', -3],
  ['00080018', 'UI', '2.25.1'],
  ['7fe00010', 'OW', Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0)],
  ['00420011', 'OB', Uint8Array.of(7)],
];

/** The elements as dicom-parser reads them from a file. */
function readBack(syntax: DicomSyntax) {
  const start = fileStart({ syntax, sopClass: '1.2.3', sopInstance: '2.25.12' });
  return parser.parseDicom(Buffer.concat([start, encodeElements(elements, syntax)]));
}

describe.each([
  ['little', syntaxes.explicit],
  ['big', syntaxes.bigEndian],
] as const)('elements in %s endian', (_, syntax) => {
  const set = readBack(syntax);

  test('Elements are read back with their values, in the order of their tags', () => {
    expect(set.uint16('x00280010')).toBe(513);
    expect(set.string('x00080060')).toBe('MR');
    expect(set.string('x00200032')).toBe('0.33333333333333\\-2\\1e-20');
    expect(set.double('x00189087')).toBe(1000.5);
    expect(set.int16('x00281101')).toBe(-3);
    expect(set.attributeTag('x00209165')).toBe('x00209056');
    expect(set.string('x00080018')).toBe('2.25.1');
    expect(set.elements.x00420011?.length).toBe(2);
    expect(set.elements.x7fe00010?.length).toBe(8);
    const tags = Object.keys(set.elements).filter((tag) => !tag.startsWith('x0002'));
    expect(tags).toEqual(tags.toSorted());
  });

  test('A sequence may have several items, and empty ones', () => {
    const items = set.elements.x00089215?.items ?? [];
    expect(items.map(({ dataSet }) => Object.keys(dataSet?.elements ?? {}))).toEqual([
      ['x00080100'],
      [],
      ['x00280011'],
    ]);
    expect(items[2]?.dataSet?.uint16('x00280011', 1)).toBe(2);
  });
});

test('The file meta information begins with its own length', () => {
  const set = readBack(syntaxes.explicit);
  const start = fileStart({ sopClass: '1.2.3', sopInstance: '2.25.12' });
  expect(set.uint32('x00020000')).toBe(start.length - 128 - 4 - 12);
  expect(set.string('x00020003')).toBe('2.25.12');
  expect(set.string('x00020012')?.length).toBeLessThanOrEqual(64);
});

test.each([
  [0, '0'],
  [-0.1, '-0.1'],
  [1 / 3, '0.33333333333333'],
  [-1 / 3, '-0.3333333333333'],
  [123_456_789.123_456_78, '123456789.123457'],
  [1e21, '1e+21'],
  [1.23456789012345e-7, '1.23456789012e-7'],
  [-1.23456789012345e-300, '-1.23456789e-300'],
  [12_345_678_901_234_567_000, '1.2345678901e+19'],
])('The number %d is written as %s, in at most 16 characters', (value, text) => {
  expect(decimalString(value)).toBe(text);
});

test('Elements whose numbers have no text need bytes', () => {
  expect(() => encodeElements([['00080001', 'UV', 258]])).toThrow('needs bytes');
});

test('A value too long for a two-byte length is refused', () => {
  expect(() => elementStart('00080060', 'CS', 0x10000)).toThrow('too long');
});

/** More text than a length of two bytes can say. */
const long = Array.from({ length: 10_000 }, (_, at) => String(at / 8)).join('\\');

const structures: readonly DicomElement[] = [
  ['30060039', 'SQ', [[['30060040', 'SQ', [[['30060050', 'DS', long]], []]]]]],
  ['00080060', 'CS', 'RTSTRUCT'],
  ['00280010', 'US', 512],
];

test('Implicit elements hold text of any length, even in sequences', () => {
  const bytes = Buffer.concat([
    fileStart({ syntax: syntaxes.implicit, sopClass: '1.2.3', sopInstance: '2.25.1' }),
    encodeElements(structures, syntaxes.implicit),
  ]);
  const set = parser.parseDicom(bytes);
  expect([set.string('x00020010'), set.string('x00080060'), set.uint16('x00280010')]).toEqual([
    syntaxes.implicit,
    'RTSTRUCT',
    512,
  ]);
  const [first, second] = set.elements.x30060039?.items?.[0]?.dataSet?.elements.x30060040?.items ?? [];
  expect(first?.dataSet?.string('x30060050')).toBe(long);
  expect(Object.keys(second?.dataSet?.elements ?? {})).toEqual([]);
});

test('An explicit element refuses text longer than its length field allows', () => {
  expect(() => encodeElements(structures)).toThrow(/30060050 \(DS\) of \d+ bytes is too long/);
});
