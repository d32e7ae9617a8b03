import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import {
  dicomFile,
  type Element,
  type Encoding,
  element,
  type Slice,
} from '../../../test/support/dicom-files.js';
import {
  beginsAsNifti,
  type DicomHeader,
  isDicomStart,
  isImage,
  isSegmentation,
  readStart,
} from '../src/headers/index.js';
import { openVolume, readVolume } from '../src/index.js';
import { refusalOf, workspace, write } from './written.js';

const slice: Slice = { pixels: new Int16Array(4), size: [2, 2], position: [1, 2, 3] };
const startOf = async (bytes: Buffer) => readStart(await write(await workspace(), 'a.dcm', bytes));
async function headerWith(more: readonly Element[], encoding: Encoding = {}): Promise<DicomHeader> {
  const { dicom } = await startOf(dicomFile({ ...slice, more }, encoding));
  if (!dicom) throw new Error('There is no header.');
  return dicom;
}

test('The header of a file is read in every encoding', async () => {
  const more = [
    ...[element(0x00100020, 'LO', 'P-1'), element(0x00200011, 'IS', '7'), element(0x00200013, 'IS', '9')],
    ...[element(0x0008103e, 'LO', 'Head '), element(0x00280008, 'IS', '4')],
  ];
  const header = {
    ...{
      seriesUid: '1.2.3.4 1.2.3 P-1',
      studyUid: '1.2.3',
      patient: 'P-1',
      instanceUid: '1.2.3.123',
      sopClass: '1.2.840.10008.5.1.4.1.1.4',
    },
    ...{ modality: 'MR', seriesNumber: 7, description: 'Head', instanceNumber: 9, rows: 2, columns: 2 },
    ...{ frames: 4, position: [1, 2, 3], orientation: [1, 0, 0, 0, 1, 0] },
  };
  for (const encoding of [
    {},
    { isImplicit: true },
    { isBig: true },
    { isDeflated: true },
    { hasPreamble: false },
  ])
    expect(await headerWith(more, encoding)).toEqual(header);
  const { dicom } = await startOf(gzipSync(dicomFile({ ...slice, more })));
  expect(dicom).toEqual(header);
});

test('Missing header fields are null, and the SOP class may come from the file meta information', async () => {
  const empty = [0x00080016, 0x00080018, 0x0020000e].map((tag) => element(tag, 'UI', ''));
  const odd = [element(0x00200032, 'DS', '1\\2'), element(0x00200037, 'DS', '1\\0\\0')];
  expect(await headerWith([...empty, ...odd, element(0x00080060, 'CS', '')])).toEqual({
    ...{
      seriesUid: null,
      studyUid: '1.2.3',
      patient: '',
      instanceUid: null,
      modality: null,
      seriesNumber: null,
      description: '',
    },
    ...{ sopClass: '1.2.840.10008.5.1.4.1.1.4', instanceNumber: null, rows: 2, columns: 2, frames: 1 },
    ...{ position: null, orientation: null },
  });
});

test.each([
  ...['4', '481.1', '1.1'].map((last) => [last, true, false] as const),
  ...['481.2', '66', '66.5', '67', '88.11', '11.1', '104.1', '9.1.1'].map(
    (last) => [last, false, false] as const,
  ),
  ...['66.4', '66.7'].map((last) => [last, false, true] as const),
])('The SOP class %s is an image: %s, a segmentation: %s', async (last, image, segmentation) => {
  const header = await headerWith([element(0x00080016, 'UI', `1.2.840.10008.5.1.4.1.1.${last}`)]);
  expect([isImage(header), isSegmentation(header)]).toEqual([image, segmentation]);
});

test('A header without a SOP class may be an image, and a DICOMDIR is not one', async () => {
  const header = await headerWith([]);
  const classes = ['', '1.2.840.10008.1.3.10', '1.2.840.10008.5.1.4.34.7'];
  expect(classes.map((sopClass) => isImage({ ...header, sopClass }))).toEqual([true, false, false]);
});

test.each([
  ['ISO_IR 192', '4dc3bc', 'Mü'],
  ['ISO_IR 100', '4dfc', 'Mü'],
  ['', '4dfc', 'Mü'],
  ['ISO_IR 101', 'a3f364bc', 'Łódź'],
  ['ISO_IR 109', 'a6', 'Ĥ'],
  ['ISO_IR 110', 'b3', 'ŗ'],
  [' ISO_IR 144 ', 'bb', 'Л'],
  ['ISO_IR 127', 'e2', 'ق'],
  ['ISO_IR 126', 'c4e9', 'Δι'],
  ['ISO_IR 138', 'f9', 'ש'],
  ['ISO_IR 148', 'd0', 'Ğ'],
  ['ISO_IR 166', 'a1', 'ก'],
  ['ISO_IR 13', 'd4cf', 'ﾔﾏ'],
  ['GB18030', 'cdf5', '王'],
  ['GBK', 'cdf5', '王'],
  ['\\ISO 2022 IR 87', '613d1b24423b3345441b2842', 'a=山田'],
  ['\\ISO 2022 IR 149', '1b242943b1e8', '김'],
  ['\\ISO 2022 IR 58', '1b242941cdf5', '王'],
  ['ISO 2022 IR 100', '4dfc', 'Mü'],
  ['unknown', '4dfc', 'Mü'],
])('Text in the character set %j is decoded', async (characterSet, hex, text) => {
  const bytes = Buffer.from(hex, 'hex');
  const padded = bytes.length % 2 === 0 ? bytes : Buffer.concat([bytes, Buffer.from(' ')]);
  const more = [element(0x00080005, 'CS', characterSet), element(0x0008103e, 'LO', padded)];
  expect((await headerWith(more)).description).toBe(text);
});

test('Text values are read up to 1024 bytes', async () => {
  const { description } = await headerWith([element(0x0008103e, 'LO', Buffer.alloc(1026, 'x'))]);
  expect(description).toBe('x'.repeat(1024));
});

test('Partly numeric text is not read as a number', async () => {
  const numberIn = async (words: string) =>
    (await headerWith([element(0x00200011, 'IS', words)])).seriesNumber;
  expect([await numberIn('1.5\\ -2 '), await numberIn('+.5e-1')]).toEqual([1.5, 0.05]);
  for (const words of ['', '1,5', '1\\x', '1 mm', '0x1', '.', '1e', '--1'])
    expect(await numberIn(words)).toBeNull();
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
  ])('A file without a preamble that begins with %s is classified correctly', (_, bytes, is) => {
    expect(isDicomStart(bytes)).toBe(is);
  });

  test('A file without a preamble may be explicit big endian, or implicit little endian', () => {
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

test('A DICOM file whose preamble begins like NIfTI is read as DICOM', async () => {
  const bytes = dicomFile({ ...slice, more: [element(0x00180050, 'DS', '2')] });
  bytes.writeInt32LE(348, 0);
  expect([isDicomStart(bytes), beginsAsNifti(bytes)]).toEqual([true, false]);
  expect((await openVolume(await write(await workspace(), 'a.dcm', bytes))).format).toBe('DICOM');
});

test('Elements with the value representations OV, SV and UV do not hide the image', async () => {
  const more = (['OV', 'SV', 'UV'] as const).map((vr, at) =>
    element(0x00189000 + at, vr, Buffer.from('0102030405060708', 'hex')),
  );
  const pixels = Int16Array.of(1, 2, 3, 4);
  const bytes = dicomFile({ ...slice, pixels, more: [...more, element(0x00180050, 'DS', '2')] });
  const file = await write(await workspace(), 'a.dcm', bytes);
  expect([...(await readVolume(file)).data]).toEqual([1, 2, 3, 4]);
  expect((await readStart(file)).dicom?.columns).toBe(2);
});

test('A long header is read to its end in every encoding', async () => {
  const more = [
    element(0x00180050, 'DS', '2'),
    // The pixels of an icon are not those of the image.
    element(0x00880200, 'SQ', [[element(0x7fe00010, 'OW', [1, 2])]]),
    element(0x00190010, 'OB', Buffer.alloc(70_000, 7)),
  ];
  const pixels = Int16Array.of(1, 2, 3, 4);
  const encodings = [{}, { isImplicit: true }, { isBig: true }, { isDeflated: true }, { hasPreamble: false }];
  for (const encoding of [...encodings, { hasPreamble: false, hasMeta: false }]) {
    const file = await write(await workspace(), 'a.dcm', dicomFile({ ...slice, pixels, more }, encoding));
    expect([...(await readVolume(file)).data], JSON.stringify(encoding)).toEqual([1, 2, 3, 4]);
    expect((await readStart(file)).dicom?.columns).toBe(2);
  }
});

test('A truncated header is read as far as it goes, and is refused as a volume', async () => {
  const bytes = dicomFile(slice);
  const cut = bytes.subarray(0, bytes.indexOf(Buffer.from('28001100', 'hex')) + 4);
  const file = await write(await workspace(), 'a.dcm', cut);
  expect((await readStart(file)).dicom).toMatchObject({ rows: 2, columns: null });
  expect(await refusalOf(openVolume(file))).toContain('a.dcm is cut short or damaged');
  expect((await startOf(Buffer.alloc(300))).dicom).toBeNull();
  expect((await startOf(Buffer.alloc(0))).dicom).toBeNull();
  await expect(readStart(`${file}.gone`)).rejects.toMatchObject({ code: 'ENOENT' });
});
