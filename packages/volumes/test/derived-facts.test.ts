import { expect, test } from 'vitest';
import { dicomFile, type Element, element } from '../../../test/support/dicom-files.js';
import { cieLabOf, hexOfCieLab } from '../src/cielab.js';
import { codeItem, dateOf, longString, timeOf } from '../src/derived-object.js';
import { derivedUid } from '../src/dicom-uid.js';
import { type DicomElement, decimalString } from '../src/dicom-write.js';
import { type SourceSeries, shearOf } from '../src/index.js';
import { namedSegment } from '../src/label-layers.js';
import { patientAndStudy, readIdentity, readLossy } from '../src/patient-study.js';
import { parse } from './study.js';

test.each([
  ['#000000', [0, 32896, 32896]],
  ['#ffffff', [65535, 32894, 32896]],
  ['#ff0000', [35579, 53664, 50858]],
  ['#010203', [330, 32853, 32773]],
  ['#dd8265', [41984, 41604, 40995]],
])('The colour %s is %j as DICOM recommends it.', (hex, lab) => {
  const found = cieLabOf(hex);
  expect(found).toEqual(lab.map((value) => expect.closeTo(value, -1)));
  expect(found && hexOfCieLab(found)).toBe(hex);
});

test('Each colour comes back, and a text that is none has no colour.', () => {
  for (const part of [0, 1, 5, 10, 11, 40, 127, 128, 200, 255])
    for (const hex of [
      `#${part.toString(16).padStart(2, '0')}2030`,
      `#2030${part.toString(16).padStart(2, '0')}`,
    ]) {
      const lab = cieLabOf(hex.toUpperCase());
      expect(lab && hexOfCieLab(lab)).toBe(hex);
    }
  expect(['red', '#fff', '#ff00000', 'x#ff0000', '#gg0000'].map(cieLabOf)).toEqual([
    null,
    null,
    null,
    null,
    null,
  ]);
  // Beyond what a screen shows.
  expect([hexOfCieLab([65535, 0, 32896]), hexOfCieLab([0, 65535, 0])].map((hex) => hex.length)).toEqual([
    7, 7,
  ]);
});

test('A UID is made of its parts, and is one of a UUID of its own kind.', () => {
  expect(derivedUid('series', 1)).toBe('2.25.325661949560586952941930750006775892001');
  expect(derivedUid('series', '1')).not.toBe(derivedUid('series', 1));
  const hex = BigInt(derivedUid('a').slice(5)).toString(16).padStart(32, '0');
  expect([hex[12], '89ab'.includes(hex[16] ?? '')]).toEqual(['8', true]);
});

test('Dates, times and texts are as DICOM has them.', () => {
  const at = new Date(2026, 0, 2, 3, 4, 5);
  expect([dateOf(at), timeOf(at)]).toEqual(['20260102', '030405']);
  expect(longString(` a\\b\nc\u0085d `)).toBe('a b c d');
  expect(longString('🧠'.repeat(65))).toBe('🧠'.repeat(64));
  expect(codeItem('1', 'SCT', 'x'.repeat(65))).toEqual([
    ['00080100', 'SH', '1'],
    ['00080102', 'SH', 'SCT'],
    ['00080104', 'LO', 'x'.repeat(64)],
  ]);
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
])('The number %d is written as %s.', (value, text) => {
  expect(decimalString(value)).toBe(text);
});

const image = (name: string, frame: number | null = null) => ({
  ...{ file: name, sopClass: '1.2.8', sopInstance: `1.2.${name}`, frame, position: [0, 0, 0] },
});
const source: SourceSeries = {
  ...{
    size: [2, 2, 2],
    name: 'scan',
    files: [],
    studyUid: '1.1',
    seriesUid: '1.2',
    frameOfReferenceUid: '1.3',
  },
  affine: [
    [-1, 0, 0.5, 10],
    [0, -1, 0, -20],
    [0, 0, 3, 30.00000049],
  ],
  ...{
    seriesNumber: null,
    modality: 'MR',
    orientation: [1, 0, 0, 0, 1, 0],
    pixelSpacing: [1, 1],
    thickness: null,
  },
  slices: [[image('1'), image('2', 3)], [image('2', 4)]],
  identity: [['00100010', 'PN', Buffer.from('A')]],
  ...{ characterSet: null, lossy: [] },
};

const valuesOf = (elements: readonly DicomElement[]) =>
  Object.fromEntries(elements.map(([tag, , value]) => [tag, value]));

test('Texts and names that are not ASCII make all of an object UTF-8, or lose what its character set does not have.', () => {
  const named = (characterSet: string | null, name: Buffer) => ({
    ...source,
    characterSet,
    identity: [
      ['00100010', 'PN', name] as DicomElement,
      ['00080020', 'DA', Buffer.from('2020')] as DicomElement,
    ],
  });
  const written = (characterSet: string | null, name: Buffer, words: string) => {
    const { elements, text } = patientAndStudy(named(characterSet, name), [words]);
    const { '00080005': set, '00100010': patient } = valuesOf(elements);
    return [set, Buffer.from(patient as Uint8Array).toString('latin1'), text(words)];
  };
  const umlaut = Buffer.from('M\xfcller ', 'latin1');
  expect(written('ISO_IR 100', umlaut, 'Liver')).toEqual(['ISO_IR 100', 'M\xfcller ', 'Liver']);
  expect(written(null, Buffer.from('A'), 'é')).toEqual(['ISO_IR 192', 'A', 'é']);
  expect(written('ISO_IR 100', umlaut, 'é')).toEqual([
    'ISO_IR 192',
    Buffer.from('Müller').toString('latin1'),
    'é',
  ]);
  expect(written('ISO_IR 999', umlaut, 'Hépar 肝\t')).toEqual(['ISO_IR 999', 'M\xfcller ', 'Hepar ??']);
  expect(written(null, umlaut, 'é')).toEqual([undefined, 'M\xfcller ', 'e']);
  // Bytes that are not in the character set, and those that change it.
  expect(written('ISO_IR 192', umlaut, 'é')).toEqual(['ISO_IR 192', 'M\xfcller ', 'e']);
  const kanji = Buffer.from('\x1b$B4N\x1b(B', 'latin1');
  expect(written('\\ISO 2022 IR 87', kanji, 'é')).toEqual([
    'ISO_IR 192',
    Buffer.from('肝').toString('latin1'),
    'é',
  ]);
  const lost = patientAndStudy(named('ISO_IR 999', umlaut), ['Liver', '肝']);
  expect([lost.text('肝'), lost.altered]).toEqual(['?', ['肝']]);
  const mixed = patientAndStudy(named('ISO_IR 100', umlaut), ['Liver', 'é']);
  expect(valuesOf(mixed.elements)['00080005']).toBe('ISO_IR 192');
});

const setOf = (...more: Element[]) => parse(dicomFile({ pixels: new Int16Array(4), size: [2, 2], more }));

test('What a file says of its patient, and of lossy compression, is kept byte by byte.', () => {
  const identity = readIdentity(
    setOf(element(0x00100010, 'PN', 'Anna'), element(0x00081030, 'LO', ''), element(0x00104000, 'LT', 'x ')),
  );
  const { length, ...values } = { length: identity.length, ...valuesOf(identity) } as Record<string, unknown>;
  const none = Buffer.alloc(0);
  const empty = [
    '00080020',
    '00080030',
    '00080050',
    '00080090',
    '00100020',
    '00100030',
    '00100040',
    '00200010',
    '00201040',
  ];
  expect(
    Object.fromEntries(Object.entries(values).map(([tag, value]) => [tag, Buffer.from(value as Uint8Array)])),
  ).toEqual({
    ...Object.fromEntries(empty.map((tag) => [tag, none])),
    ...{ '00100010': Buffer.from('Anna'), '00104000': Buffer.from('x '), '0020000d': Buffer.from('1.2.3\0') },
  });
  expect(length).toBe(12);
  const lossy = (said: string, ...more: Element[]) =>
    readLossy(setOf(element(0x00282110, 'CS', said), ...more)).map(([tag, vr, value]) => [
      tag,
      vr,
      Buffer.from(value as Uint8Array).toString(),
    ]);
  expect(lossy('00', element(0x00282112, 'DS', '10'))).toEqual([]);
  expect(readLossy(setOf(element(0x00282112, 'DS', '10')))).toEqual([]);
  expect(lossy('01')).toEqual([['00282110', 'CS', '01']]);
  expect(lossy('01', element(0x00282112, 'DS', '10'), element(0x00282114, 'CS', 'ISO_10918_1 '))).toEqual([
    ['00282110', 'CS', '01'],
    ['00282112', 'DS', '10'],
    ['00282114', 'CS', 'ISO_10918_1 '],
  ]);
});

test('A label is called as the app says, or by its value.', () => {
  const snomed = { code: '1', meaning: 'Liver' };
  const known = [
    { value: 1, name: ' Liv\\er', color: '#ff0000', snomed },
    { value: 2, name: ' ', color: null, snomed: null },
  ];
  expect([1, 2, 3].map((value) => namedSegment(known, value))).toEqual([
    { value: 1, name: 'Liv er', color: '#ff0000', snomed },
    { value: 2, name: 'Label 2', color: null, snomed: null },
    { value: 3, name: 'Label 3', color: null, snomed: null },
  ]);
});

test.each([
  [[1, 0, 0], [0, 1, 0], [0, 0, 1], 0],
  [[2, 0, 0], [0, 3, 0], [0, 1, 1], 45],
  [[2, 0, 0], [3, 3, 0], [0, 0, 1], 45],
  [[2, 0, 0], [0, 3, 0], [-0.5, 0, Math.sqrt(0.75)], 30],
])('Axes along %j, %j and %j are %d degrees from being perpendicular.', (i, j, k, degrees) => {
  const affine = [0, 1, 2].map((row) => [i[row], j[row], k[row], 7]) as unknown as SourceSeries['affine'];
  expect(shearOf({ affine })).toBeCloseTo(degrees, 9);
});
