import parser from 'dicom-parser';
import { describe, expect, test } from 'vitest';
import { dicomFile, type Element, element, type Slice } from '../../../test/support/dicom-files.js';
import { walkElements } from '../src/headers/dicom-walk.js';
import {
  encodingOf,
  hasMagic,
  headerOf,
  isDicomStart,
  isGzip,
  isImage,
  isSegmentation,
  lookAhead,
  numberOf,
  numbersOf,
  parseDicomStart,
  syntaxes,
  textOf,
  wordsOf,
} from '../src/headers/index.js';
import { parse } from './study.js';

const slice: Slice = { pixels: new Int16Array(4), size: [3, 2], position: [1, 2, 3] };
const setOf = (...more: Element[]) => parse(dicomFile({ ...slice, more }));

test('a header says of its image what the elements say', () => {
  const more = [
    ...[element(0x00100020, 'LO', 'P-1'), element(0x00200011, 'IS', '7'), element(0x00200013, 'IS', '9')],
    ...[element(0x0008103e, 'LO', 'Head '), element(0x00280008, 'IS', '4')],
  ];
  expect(headerOf(setOf(...more))).toEqual({
    ...{ seriesUid: '1.2.3.4 1.2.3 P-1', instanceUid: '1.2.3.123', sopClass: '1.2.840.10008.5.1.4.1.1.4' },
    ...{
      modality: 'MR',
      seriesNumber: 7,
      description: 'Head',
      instanceNumber: 9,
      rows: 2,
      columns: 3,
      frames: 4,
    },
    ...{ position: [1, 2, 3], orientation: [1, 0, 0, 0, 1, 0] },
  });
  const bare = headerOf(
    setOf(
      ...[0x00080016, 0x00080018, 0x0020000e].map((tag) => element(tag, 'UI', '')),
      ...[
        element(0x00080060, 'CS', ''),
        element(0x00200032, 'DS', '1\\2'),
        element(0x00200037, 'DS', '1\\0\\0'),
      ],
    ),
  );
  expect(bare).toEqual({
    ...{
      seriesUid: null,
      instanceUid: null,
      modality: null,
      seriesNumber: null,
      description: '',
      instanceNumber: null,
    },
    // That of the group that describes the file.
    ...{
      sopClass: '1.2.840.10008.5.1.4.1.1.4',
      rows: 2,
      columns: 3,
      frames: 1,
      position: null,
      orientation: null,
    },
  });
});

test.each([
  ['4', true, false],
  ['481.1', true, false],
  ['481.2', false, false],
  ['66', false, false],
  ['66.4', false, true],
  ['66.5', false, false],
  ['66.7', false, true],
  ['67', false, false],
  ['88.11', false, false],
  ['11.1', false, false],
  ['104.1', false, false],
  ['9.1.1', false, false],
  ['1.1', true, false],
])('the class %s is that of an image: %s, of a segmentation: %s', (last, image, segmentation) => {
  const header = { ...headerOf(setOf()), sopClass: `1.2.840.10008.5.1.4.1.1.${last}` };
  expect([isImage(header), isSegmentation(header)]).toEqual([image, segmentation]);
});

test('a header that names no class may be one of an image, a directory of files is none', () => {
  const of = (sopClass: string) => isImage({ ...headerOf(setOf()), sopClass });
  expect(['', '1.2.840.10008.1.3.10', '1.2.840.10008.5.1.4.34.7'].map(of)).toEqual([true, false, false]);
});

test.each([
  ['ISO_IR 192', 'utf-8'],
  ['ISO_IR 100', 'latin1'],
  [' ISO_IR 144 ', 'iso-8859-5'],
  ['\\ISO 2022 IR 87', 'iso-2022-jp'],
  ['ISO 2022 IR 999\\GBK', 'gbk'],
  ['GB18030\\ISO_IR 192', 'gb18030'],
  ['', null],
  ['ISO_IR 6', null],
])('texts in %j are decoded as %s', (characterSet, encoding) => {
  expect(encodingOf(characterSet)).toBe(encoding);
});

test('a text is read in the character set of its file, without padding, up to 1024 bytes', () => {
  const text = (value: Buffer, ...more: Element[]) =>
    textOf(setOf(element(0x0008103e, 'LO', value), ...more), 'x0008103e');
  expect(text(Buffer.from(' M\xfcl\0ler ', 'latin1'))).toBe('Müller');
  expect(text(Buffer.from('Mü '), element(0x00080005, 'CS', 'ISO_IR 192'))).toBe('Mü');
  expect(text(Buffer.alloc(1026, 'x'))).toBe('x'.repeat(1024));
  expect(textOf(setOf(), 'x0008103e')).toBe('');
});

test('numbers are numbers as a whole', () => {
  const of = (words: string) => {
    const set = setOf(element(0x00281053, 'DS', words));
    return [numbersOf(set, 'x00281053'), numberOf(set, 'x00281053')];
  };
  expect(of('1.5\\ -2 ')).toEqual([[1.5, -2], 1.5]);
  expect(of('+.5e-1')).toEqual([[0.05], 0.05]);
  for (const words of ['1,5', '1\\x', '1 mm', '0x1', '.', '1e', '--1']) expect(of(words)[0]).toBeNull();
  expect([numbersOf(setOf(), 'x00281054'), numberOf(setOf(), 'x00281054'), wordsOf(undefined, 'x1')]).toEqual(
    [null, null, null],
  );
  expect(wordsOf(setOf(element(0x00281054, 'LO', 'a \0')), 'x00281054')).toBe('a');
});

describe('A file without a preamble', () => {
  const explicit = (tag: string, vr: string, value: string, length = value.length) => {
    const head = Buffer.from(`${tag}${Buffer.from(vr).toString('hex')}0000`, 'hex');
    head.writeUInt16LE(length, 6);
    return Buffer.concat([head, Buffer.from(value, 'latin1')]);
  };
  const next = explicit('08001800', 'UI', '1.2.3.4.5.6\0');
  const begun = (...parts: Buffer[]) => Buffer.concat([...parts, Buffer.alloc(8)]);
  const swapped = (bytes: Buffer, at: readonly number[]) => {
    const copy = Buffer.from(bytes);
    for (const each of at) copy.subarray(each, each + 2).swap16();
    return copy;
  };
  const uid = (value: string) => explicit('08001600', 'UI', value);
  const image = explicit('08000800', 'CS', 'ORIGINAL\\PRIMARY');

  test.each<[string, Buffer, boolean]>([
    ['a UID', begun(uid('1.2.840.1\0'), next), true],
    ['words', begun(image, next), true],
    ['the length of a group', begun(explicit('08000000', 'UL', '\x10\0\0\0'), next), true],
    [
      'the length of the group that describes it',
      begun(explicit('02000000', 'UL', '\x10\0\0\0'), explicit('02000100', 'OB', '')),
      true,
    ],
    ['a date', begun(explicit('08001200', 'DA', '20200101'), next), true],
    ['an unknown element', begun(explicit('08001400', 'UI', '1.2.840.10'), next), false],
    ['another value representation', begun(explicit('08001600', 'LO', '1.2.840.10'), next), false],
    ['a UID that is too short', begun(uid('1.2.840.'), next), false],
    ['an odd length', begun(uid('1.2.840.100'), next), false],
    ['bytes that are no text', begun(uid('1.2.840.1\x01'), next), false],
    ['an earlier element behind it', begun(uid('1.2.840.10'), image), false],
    [
      'an element of another group behind it',
      begun(uid('1.2.840.10'), explicit('10001000', 'PN', 'ab')),
      false,
    ],
    [
      'an element without a type behind it',
      begun(uid('1.2.840.10'), explicit('08001800', 'u1', 'ab')),
      false,
    ],
    ['nothing behind it', uid('1.2.840.10'), false],
    ['fewer than 16 bytes', image.subarray(0, 15), false],
  ])('begins with %s: is DICOM or not', (_, bytes, is) => {
    expect(isDicomStart(bytes)).toBe(is);
  });

  test('may be big-endian with types, or little-endian without them', () => {
    const first = uid('1.2.840.10');
    const big = begun(swapped(first, [0, 2, 6]), swapped(next, [0, 2, 6]));
    expect(isDicomStart(big)).toBe(true);
    const implicit = (bytes: Buffer) => {
      const copy = Buffer.from(bytes);
      copy.writeUInt32LE(bytes.length - 8, 4);
      return copy;
    };
    const plain = begun(implicit(first), implicit(next));
    expect(isDicomStart(plain)).toBe(true);
    plain.writeUInt32LE(64 + 1025, first.length + 4);
    expect(isDicomStart(plain)).toBe(false);
    const bigWithout = (bytes: Buffer) => {
      const copy = swapped(bytes, [0, 2]);
      copy.writeUInt32BE(bytes.length - 8, 4);
      return copy;
    };
    const unnamed = begun(bigWithout(first), bigWithout(next));
    expect(isDicomStart(unnamed)).toBe(false);
  });
});

test('other beginnings are known by their first bytes', () => {
  const bytes = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM')]);
  expect([hasMagic(bytes), hasMagic(bytes.subarray(1)), isDicomStart(bytes)]).toEqual([true, false, true]);
  expect(
    [
      [0x1f, 0x8b],
      [0x1f, 0x8c],
      [0x8b, 0x1f],
    ].map((each) => isGzip(Buffer.from(each))),
  ).toEqual([true, false, false]);
});

test('a file that is cut short says how far it was read, and that it is not sound', () => {
  const file = dicomFile(slice);
  const cut = file.subarray(0, file.indexOf(Buffer.from('28001100', 'hex')) + 4);
  const parsed = parseDicomStart(parser, cut);
  expect(parsed).toMatchObject({ isSound: false, isCut: false, deflatedFrom: null, shift: 0 });
  expect(parsed && headerOf(parsed.set)).toMatchObject({ rows: 2, columns: null });
  expect(parseDicomStart(parser, Buffer.alloc(300))).toBeNull();
  const bare = parseDicomStart(parser, dicomFile(slice, { hasPreamble: false }));
  expect([bare?.shift, bare?.isSound]).toEqual([132, true]);
});

describe('The elements of a header are counted', () => {
  const walk = (bytes: Buffer, syntax: string | null = syntaxes.explicit, most = 100, from = 0) =>
    walkElements(bytes, from, syntax, most);
  const short = (tag: string, vr: string, length: number) => {
    const bytes = Buffer.concat([
      Buffer.from(tag + Buffer.from(vr).toString('hex'), 'hex'),
      Buffer.alloc(2 + length),
    ]);
    bytes.writeUInt16LE(length, 6);
    return bytes;
  };
  const pixels = Buffer.from('e07f10004f57000004000000', 'hex');
  const open = Buffer.from('4000080053510000ffffffff', 'hex');
  const [item, itemEnd, end] = ['feff00e0', 'feff0de0', 'feffdde0'].map((tag) =>
    Buffer.from(`${tag}00000000`, 'hex'),
  ) as [Buffer, Buffer, Buffer];
  const found = { cut: null, pixels: 'x7fe00010' };
  test.each<[string, Buffer[], object]>([
    ['up to the pixels', [short('08001800', 'UI', 8), pixels], found],
    [
      'of floating point too',
      [Buffer.from('e07f08004f46000004000000', 'hex')],
      { cut: null, pixels: 'x7fe00008' },
    ],
    ['and none are there', [short('08001800', 'UI', 8)], { cut: null, pixels: null }],
    ['whose heads are cut', [pixels.subarray(0, 10)], { cut: null, pixels: null }],
    [
      'not within open sequences',
      [open, item, pixels, Buffer.alloc(4), itemEnd, end, short('50000000', 'US', 2)],
      { cut: null, pixels: null },
    ],
    ['behind open sequences', [open, item, itemEnd, end, pixels], found],
    [
      'not within sequences of a length',
      [Buffer.from('400008005351000018000000', 'hex'), item, pixels, Buffer.alloc(4)],
      { cut: null, pixels: null },
    ],
  ])('%s', (_, parts, expected) => {
    expect(walk(Buffer.concat(parts))).toEqual(expected);
  });

  test('and cut where there are more than are wanted', () => {
    const one = short('08001800', 'UI', 8);
    const three = Buffer.concat([one, one, one]);
    expect([2, 3].map((most) => walk(three, syntaxes.explicit, most).cut)).toEqual([32, null]);
  });

  test.each([
    ['explicit', {}],
    ['implicit', { isImplicit: true }],
    ['big endian', { isBig: true }],
  ])('in the way that the file says: %s', (_, encoding) => {
    const more = [element(0x00190010, 'OB', Buffer.alloc(70_000, 7))];
    const file = dicomFile({ ...slice, more }, encoding);
    expect(lookAhead(file)).toEqual(found);
    expect(lookAhead(dicomFile({ ...slice, more }, { ...encoding, hasPreamble: false }))).toEqual(found);
    expect(
      lookAhead(dicomFile({ ...slice, more }, { ...encoding, hasPreamble: false, hasMeta: false })),
    ).toEqual(found);
    expect(lookAhead(file.subarray(0, 64 * 1024))).toBeNull();
    expect(lookAhead(file.subarray(0, 64 * 1024 + 1))).toEqual({ cut: null, pixels: null });
  });
});
