import type { Attribute } from '@remote-app/volumes/attributes';
import { describe, expect, test } from 'vitest';
import {
  classFor,
  isEmission,
  isEnhanced,
  reasonsAgainst,
} from '../../../src/imaging/deidentify/refusals.js';
import { gzipHeaderOf } from '../../../src/imaging/deidentify/repack.js';
import { StudyTimes } from '../../../src/imaging/deidentify/times.js';
import {
  type DataSet,
  type Element,
  numbersOf,
  termsOf,
  textOf,
  textsOf,
  vrOf,
} from '../../../src/imaging/deidentify/values.js';
import { pseudonyms } from './leaving.js';

/** A data set of these values, as dicom-parser reads it. */
function setOf(values: Readonly<Record<string, string | Buffer>>, vr?: string): DataSet {
  const elements: Record<string, Partial<Element>> = {};
  let byteArray = Buffer.alloc(0);
  for (const [tag, value] of Object.entries(values)) {
    const bytes = typeof value === 'string' ? Buffer.from(value, 'latin1') : value;
    elements[tag] = { tag, dataOffset: byteArray.length, length: bytes.length, ...(vr ? { vr } : {}) };
    byteArray = Buffer.concat([byteArray, bytes]);
  }
  return { elements, byteArray } as unknown as DataSet;
}
const only = (value: string | Buffer, vr?: string): [DataSet, Element] => {
  const set = setOf({ x: value }, vr);
  return [set, set.elements.x as Element];
};
const attribute = (more: Partial<Attribute>): Attribute =>
  ({
    tag: '0',
    vrs: ['LO'],
    allows: (text: string) => /^[A-Z]+$/.test(text),
    maxValues: 2,
    ...more,
  }) as Attribute;

test('Texts have their values without padding, and very long ones none', () => {
  expect(textsOf(...only(' AB\\ C\0 '))).toEqual(['AB', 'C']);
  expect([textOf(setOf({ x: 'A\\B' }), 'x'), textOf(setOf({}), 'x')]).toEqual(['A', '']);
  expect(textsOf(...only(Buffer.alloc((1 << 20) + 2, 'A')))).toEqual([]);
});

test('Terms leave where they are known, and nothing of a value that begins with another', () => {
  const terms = (value: string) => termsOf(...only(value), attribute({}));
  expect(['AX', 'AX\\SAG', 'AX\\Ada', 'Ada\\AX', 'AX\\SAG\\COR', '', ' \\ '].map(terms)).toEqual([
    'AX',
    'AX\\SAG',
    'AX',
    null,
    null,
    '',
    '',
  ]);
});

describe('numbers', () => {
  const numbers = (value: string | Buffer, vr: string, maxValues = 3) =>
    numbersOf(...only(value), attribute({ maxValues }), vr);

  test('Numbers leave as they are, no more than there may be, and no text in their place', () => {
    expect(
      ['1.5', '-2e3\\.5', '1\\', 'x', '1\\2\\3\\4', '12345678901234567', '1'.repeat(65), '1.5 m'].map(
        (each) => numbers(each, 'DS'),
      ),
    ).toEqual(['1.5', '-2e3\\.5', '1\\', null, null, '12345678901234567', null, null]);
    const [three, four] = [Buffer.from([0, 1, 0, 2, 0, 3]), Buffer.from([0, 1, 0, 2, 0, 3, 0, 4])];
    expect(numbers(three, 'US')).toEqual(three);
    expect([numbers(four, 'US'), numbers(three.subarray(1), 'US')]).toEqual([null, null]);
    const name = Buffer.from('Ada By');
    expect([numbers(name, 'US'), numbers(name, 'US', Number.POSITIVE_INFINITY)]).toEqual([null, name]);
    expect(numbers(Buffer.from('Ada Byro'), 'FD')).toEqual(Buffer.from('Ada Byro'));
  });

  test.each([
    [['US', 'SS'], 'US', false, false, 'US'],
    [['US', 'SS'], 'SS', false, false, 'SS'],
    [['US', 'SS'], undefined, false, false, 'US'],
    [['US', 'SS'], undefined, false, true, 'SS'],
    [['US', 'OW'], undefined, false, false, 'OW'],
    [['US'], undefined, false, true, 'US'],
    [['US'], 'UN', false, false, 'US'],
    [['US'], 'UN', true, false, null],
    [['LO'], 'UN', true, false, 'LO'],
    [['LO'], 'SH', false, false, 'LO'],
    [['LO'], 'SQ', false, false, null],
    [['LO'], 'OB', false, false, null],
    [['LO'], 'US', false, false, null],
    [['US'], 'LO', false, false, null],
    [['SQ'], 'LO', false, false, null],
  ])(
    'Numbers of %j that a file has as %s (big endian: %j, signed: %j) are %s',
    (vrs, vr, isBig, isSigned, written) => {
      const [, element] = only('', vr);
      expect(vrOf(attribute({ vrs }), element, { isBig, isSigned })).toBe(written);
    },
  );
});

describe('the times of a study', () => {
  /** Shifts values of a study that began so. */
  const shifted = (begun: Readonly<Record<string, string>>, tag: string, vr: string) => {
    const set = setOf(begun);
    return new StudyTimes(set, pseudonyms).shifted(set, tag, vr);
  };
  const begin = { x00080030: '093000', x00080020: '20200301', x00100020: '4711' };

  test('The times of a study begin at eight, and keep their differences over midnight', () => {
    expect(shifted(begin, 'x00080030', 'TM')).toBe('080000');
    expect(shifted({ ...begin, x00080032: '093001.25' }, 'x00080032', 'TM')).toBe('080001.25');
    expect(shifted({ ...begin, x00080032: '0100' }, 'x00080032', 'TM')).toBe('233000');
    expect(shifted({ ...begin, x00080032: '' }, 'x00080032', 'TM')).toBe('');
    for (const no of ['Ada', '246000', '096000', '093061', '24'])
      expect(shifted({ ...begin, x00080032: no }, 'x00080032', 'TM'), no).toBeNull();
    expect(shifted({ ...begin, x00080032: '093060' }, 'x00080032', 'TM')).toBe('080100');
  });

  test('The times of a study begin by the study, otherwise by the series or the acquisition, and nothing leaves without', () => {
    expect(shifted({ x00080031: '10', x00080032: '11' }, 'x00080032', 'TM')).toBe('090000');
    expect(shifted({ x00080032: '11' }, 'x00080032', 'TM')).toBe('080000');
    expect(shifted({ x00080033: '11', x00080023: '20200301' }, 'x00080023', 'DA')).toBeNull();
  });

  test('The times of a study go back by days that the patient chooses, and the study where there is none', () => {
    const days = (from: string, to: string | null) => {
      const date = (text: string) => Date.parse(text.replace(/(....)(..)(..)/, '$1-$2-$3'));
      return (date(from) - date(to ?? '')) / 86_400_000;
    };
    const back = pseudonyms.daysBack('4711');
    expect(days('20200301', shifted(begin, 'x00080020', 'DA'))).toBe(back);
    const anonymous = { x00080030: '09', x00080020: '20200301', x0020000d: '1.2.3' };
    expect(days('20200301', shifted(anonymous, 'x00080020', 'DA'))).toBe(pseudonyms.daysBack('1.2.3'));
    // Content of half an hour after midnight.
    const late = { ...begin, x00080023: '20200302', x00080033: '003000' };
    expect(days('20200301', shifted(late, 'x00080023', 'DA'))).toBe(back);
    expect(shifted({ ...begin, x00080020: '19000101' }, 'x00080020', 'DA')).toMatch(/^18\d{6}$/);
    for (const no of ['20200230', '18991231', 'Ada', '2020'])
      expect(shifted({ ...begin, x00080020: no }, 'x00080020', 'DA'), no).toBeNull();
    const moment = { ...begin, x: '20200302003000.5+0100' };
    const text = shifted(moment, 'x', 'DT') ?? '';
    expect([days('20200301', text.slice(0, 8)), text.slice(8)]).toEqual([back, '230000.5']);
    expect(shifted({ ...begin, x: '20200302' }, 'x', 'DT')).toBeNull();
  });
});

test('Objects are refused for all that may show a person', () => {
  const reasons = (values: Readonly<Record<string, string>>, uid = '4', hasPixels = true) =>
    reasonsAgainst(setOf(values), uid === '' ? '' : `1.2.840.10008.5.1.4.1.1.${uid}`, hasPixels);
  expect([reasons({}), reasons({}, '2.1'), reasons({}, '128')]).toEqual([[], [], []]);
  expect([reasons({}, '999'), reasons({}, '999', false), reasons({}, '')]).toEqual([
    ['other-image'],
    ['no-image'],
    ['other-image'],
  ]);
  expect([reasons({ x00080060: 'MR' }, ''), reasons({ x00080060: 'US' }, '')]).toEqual([[], ['other-image']]);
  expect([reasons({}, '7.2'), reasons({}, '6.1'), reasons({}, '88.11'), reasons({}, '66.4')]).toEqual([
    ['secondary-capture'],
    ['ultrasound'],
    ['report'],
    ['segmentation'],
  ]);
  expect([reasons({ x00280301: 'yes' }), reasons({ x00280301: 'NO' })]).toEqual([['burned-in'], []]);
  expect(reasons({ x00080008: 'ORIGINAL\\screen save' })).toEqual(['secondary-capture']);
  for (const group of ['x6000', 'x6002', 'x601e']) {
    const overlay = { [`${group}0010`]: '1', [`${group}0102`]: '1' };
    expect(reasons(overlay), group).toEqual(['overlay']);
    expect(reasons({ ...overlay, [`${group}3000`]: '1' }), group).toEqual([]);
  }
});

test.each([
  ['1', []],
  ['1.1', []],
  ['1.3.1', []],
  ['2', []],
  ['2.2', []],
  ['4', []],
  ['4.4', []],
  ['4.2', ['other-image']],
  ['5', []],
  ['20', []],
  ['30', []],
  ['128.1', []],
  ['130', []],
  ['12.1.1', []],
  ['12.3', []],
  ['13.1.5', []],
  ['13.1.6', ['other-image']],
  ['481.1', []],
  ['7', ['secondary-capture']],
  ['7.4', ['secondary-capture']],
  ['7.5', ['other-image']],
  ['3.1', ['ultrasound']],
  ['6.3', ['ultrasound']],
  ['77.1.2.1', ['photograph']],
  ['77.1.5.4', ['photograph']],
  ['77.1.3', ['other-image']],
  ['88.67', ['report']],
  ['104.2', ['document']],
  ['66.7', ['segmentation']],
  ['66.5', ['other-image']],
  ['481.5', ['radiotherapy']],
])('A class is known to be free of identity, or is none of these: %s, %j', (uid, reasons) => {
  expect(reasonsAgainst(setOf({}), `1.2.840.10008.5.1.4.1.1.${uid}`, true)).toEqual(reasons);
  expect(reasonsAgainst(setOf({}), `1.2.840.10008.5.1.4.1.1.${uid}.x`, true)).toEqual(['other-image']);
});

test.each([
  ...['SCREEN', 'SNAPSHOT', 'DOSE INFO', 'dose_info', 'DOSEINFO', 'REPORT', 'PROTOCOL'].map((each) => [
    each,
    true,
  ]),
  ...['AXIAL', 'DOSE', 'INFO', 'SECONDARY'].map((each) => [each, false]),
] as [string, boolean][])('A picture of a screen is known by %s: %j', (word, isOne) => {
  const reasons = reasonsAgainst(setOf({ x00080008: `DERIVED\\${word}` }), '1.2.840.10008.5.1.4.1.1.4', true);
  expect(reasons).toEqual(isOne ? ['secondary-capture'] : []);
});

test.each([
  ...['5', '20', '128', '128.1', '130'].map((uid) => [uid, true]),
  ...['4', '12.1', '128.2', '30'].map((uid) => [uid, false]),
] as [string, boolean][])('A class gives uptake: %s, %j', (uid, isOne) => {
  expect(isEmission(`1.2.840.10008.5.1.4.1.1.${uid}`)).toBe(isOne);
});

test.each([
  ...['2.1', '2.2', '4.1', '4.3', '4.4', '12.1.1', '12.2.1', '13.1.1', '13.1.5', '30', '128.1', '130'],
  ...['2', '4', '4.2', '12.1', '13.1.6', '128', '20', '5'].map((uid) => `no ${uid}`),
])('A class may have functional groups: %s', (said) => {
  const [uid = '', no] = said.split(' ').reverse();
  expect(isEnhanced(`1.2.840.10008.5.1.4.1.1.${uid}`)).toBe(no === undefined);
});

test('The class of a file that names none is that of its modality', () => {
  const of = (modality: string, uid = '') => classFor(setOf({ x00080060: modality }), uid);
  expect([of('US'), of('CT', '1.2.3')]).toEqual(['1.2.840.10008.5.1.4.1.1.7', '1.2.3']);
});

test('The header of gzip ends behind its extra field, name, comment and checksum', () => {
  const start = (flags: number, ...more: readonly (string | Buffer)[]) =>
    gzipHeaderOf(
      Buffer.concat([
        Buffer.from([0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3]),
        ...more.map((each) => Buffer.from(each as string, 'latin1')),
        Buffer.from('data'),
      ]),
    )?.end;
  expect([start(0), start(2, 'ck'), start(4, '\x02\0xx'), start(8, 'ada\0'), start(16, 'hi\0')]).toEqual([
    10, 12, 14, 14, 13,
  ]);
  expect(start(4 | 8 | 16 | 2, '\x02\0xx', 'ada\0', 'hi\0', 'ck')).toBe(23);
  expect([start(8, 'endless'), start(4, '\xff\xff')]).toEqual([undefined, undefined]);
});
