import { describe, expect, test } from 'vitest';
import { voxelNamesOf } from '../src/headers/data-files.js';
import {
  beginsAsNifti,
  dataLayoutOf,
  headerNamesOf,
  isPairVoxels,
  pairStem,
  parseMetaHeader,
  parseNrrdHeader,
  voxelFilesOf,
} from '../src/headers/index.js';
import { beginsAsMetaImage, beginsAsNrrd } from '../src/headers/text-headers.js';
import { gzip, lines, niftiHeader } from './written.js';

/** Reads the first bytes of a text or of bytes. */
const reading =
  (content: string | Buffer) =>
  (max: number): Buffer =>
    Buffer.from(content as string).subarray(0, max);

test.each([
  ['ObjectType = Image', true],
  [' \n NDims: 3', true],
  ['Comment=x', true],
  ['xNDims = 3', false],
  ['NDims 3', false],
  [`${' '.repeat(64)}NDims = 3`, false],
])('%j is the beginning of a MetaImage header: %s', (text, is) => {
  expect(beginsAsMetaImage(Buffer.from(text))).toBe(is);
});

test('NRRD and NIfTI headers are recognised by their first bytes', () => {
  expect(
    ['NRRD0004', 'NRRD000', 'nrrd0004', 'xNRRD0004'].map((text) => beginsAsNrrd(Buffer.from(text))),
  ).toEqual([...[true, true, false, false]]);
  const size = [3, 2, 4];
  const nifti = [
    niftiHeader({ size }),
    niftiHeader({ size, isBig: true }),
    niftiHeader({ size, isSecond: true }),
  ];
  expect(nifti.map(beginsAsNifti)).toEqual([true, true, true]);
  const [first = Buffer.alloc(0)] = nifti;
  expect([first.subarray(0, 348), first.subarray(0, 347), Buffer.alloc(348)].map(beginsAsNifti)).toEqual([
    ...[true, false, false],
  ]);
});

test.each([
  ['a.hdr', ['a.img', 'a.img.gz', 'a.IMG', 'a.IMG.gz', 'a.IMG.GZ'], []],
  ['dir/a.HDR', ['dir/a.IMG', 'dir/a.IMG.gz', 'dir/a.IMG.GZ', 'dir/a.img', 'dir/a.img.gz'], []],
  ['a.hdr.gz', ['a.img', 'a.img.gz', 'a.IMG', 'a.IMG.gz', 'a.IMG.GZ'], []],
  ['a.img.gz', [], ['a.hdr', 'a.hdr.gz', 'a.HDR', 'a.HDR.gz', 'a.HDR.GZ']],
  ['a.par', ['a.rec', 'a.REC'], []],
  ['A.REC', [], ['A.PAR', 'A.par']],
  [
    'b+orig.HEAD',
    [
      'b+orig.BRIK',
      'b+orig.BRIK.gz',
      'b+orig.BRIK.GZ',
      'b+orig.BRIK.bz2',
      'b+orig.BRIK.BZ2',
      'b+orig.brik',
      'b+orig.brik.gz',
      'b+orig.brik.bz2',
    ],
    [],
  ],
  ['b+tlrc.BRIK.gz', [], ['b+tlrc.HEAD', 'b+tlrc.head']],
  ['b.HEAD', [], []],
  ['a.nii', [], []],
])('The possible names of the file that accompanies %s are known', (name, voxels, headers) => {
  expect([voxelNamesOf(name), headerNamesOf(name)]).toEqual([voxels, headers]);
});

test('Both files of a pair have the same stem, and their names tell which one holds the voxels', () => {
  const names = ['a.hdr', 'A.IMG.gz', 'a.b.par', 'a.rec', 'b+acpc.head', 'b+acpc.brik.bz2', 'a.nii', 'hdr'];
  expect(names.map(pairStem)).toEqual(['a', 'A', 'a.b', 'a', 'b+acpc', 'b+acpc', null, null]);
  expect(names.map(isPairVoxels)).toEqual([false, true, false, true, false, true, false, false]);
});

const meta = (...more: string[]) => lines('NDims = 3', 'DimSize = 2 2 2', 'ElementType = MET_SHORT', ...more);
const nrrd = (...more: string[]) =>
  lines('NRRD0004', 'type: short', 'sizes: 2 2 2', 'encoding: raw', ...more);

describe('The data files of a header', () => {
  test.each<[string, string | Buffer, readonly (readonly string[])[] | null]>([
    ['a.mhd', meta('ElementDataFile = a.raw'), [['a.raw']]],
    ['a.MHA', meta('ElementDataFile = Local'), null],
    ['a.mhd', meta('ElementDataFile = a%d.raw 1 3'), [['a1.raw'], ['a2.raw'], ['a3.raw']]],
    ['a.mhd', meta(), null],
    ['a.nhdr', nrrd('data file: LIST', 'b.bin', ' c.bin ', ''), [['b.bin'], ['c.bin']]],
    ['a.nrrd', nrrd('', '', 'data file: x.raw'), null],
    ['a.hdr', niftiHeader({ size: [2, 2, 2], magic: 'ni1' }), [voxelNamesOf('a.hdr')]],
    ['a.hdr', 'ENVI text of another format', null],
    ['a.hdr.gz', 'packed', [voxelNamesOf('a.hdr.gz')]],
    ['dir/a.par', 'any', [['a.rec', 'a.REC']]],
    ['a.nii', 'any', null],
    ['a.img', 'any', null],
  ])('The data files that %s names are found', (name, content, files) => {
    expect(voxelFilesOf(name, reading(content))).toEqual(files);
  });

  test('The data files of a header of up to a megabyte are found', () => {
    const long = (length: number) =>
      meta(`Comment = ${'x'.repeat(length)}`, 'ElementDataFile = a.raw', 'x'.repeat(5000));
    expect(voxelFilesOf('a.mhd', reading(long(5000)))).toEqual([['a.raw']]);
    expect(voxelFilesOf('a.mhd', reading(long(1 << 20)))).toBeNull();
    const names = Array.from({ length: 1000 }, (_, at) => `${at}.raw`);
    const list = meta('ElementDataFile = LIST', ...names);
    expect(voxelFilesOf('a.mhd', reading(list))).toEqual(names.map((name) => [name]));
    // A line that is cut off does not count: it may name another file.
    const cut = `${meta(`Comment = ${'x'.repeat(4096 - meta('Comment = ', 'ElementDataFile = a').length + 1)}`)}ElementDataFile = abc.raw\n`;
    expect(voxelFilesOf('a.mhd', reading(cut))).toEqual([['abc.raw']]);
  });
});

describe('A text header', () => {
  test('A MetaImage header is parsed with its fields, its end and its data files', () => {
    const text = 'NDims = 3\r\nno mark\n Offset: 1 2\nElementDataFile = LIST 2D\nü.raw\n\n b.raw \nc.raw';
    const found = parseMetaHeader(Buffer.from(text));
    expect(found && { ...found, fields: [...found.fields] }).toEqual({
      fields: [
        ['NDims', '3'],
        ['Offset', '1 2'],
        ['ElementDataFile', 'LIST 2D'],
      ],
      end: text.indexOf('ü.raw'),
      dataFiles: ['ü.raw', 'b.raw', 'c.raw'],
      isWhole: false,
    });
    expect(parseMetaHeader(Buffer.from('ElementDataFile = local\nrest'))).toMatchObject({
      ...{ dataFiles: null, end: 24, isWhole: true },
    });
    expect(parseMetaHeader(Buffer.from('NDims = 3\n'))).toBeNull();
    expect(parseMetaHeader(Buffer.from('ElementDataFile ='))?.dataFiles).toEqual([]);
  });

  test('An NRRD header is parsed with its fields, key/value pairs, its end and its data files', () => {
    const text =
      'NRRD0004\n# a: comment\nData File: ä.raw\nSpace Origin: (1)\nKey A:=b\\nc:=ü\nno mark\r\n\r\nvoxels: 3';
    const found = parseNrrdHeader(Buffer.from(text));
    expect({ ...found, fields: [...found.fields], pairs: [...(found.pairs ?? [])] }).toEqual({
      fields: [
        ['datafile', Buffer.from('ä.raw').toString('latin1')],
        ['spaceorigin', '(1)'],
      ],
      pairs: [['Key A', 'b c:=ü']],
      end: Buffer.from(text).indexOf('voxels'),
      dataFiles: ['ä.raw'],
      isWhole: true,
    });
    const list = parseNrrdHeader(Buffer.from('NRRD0004\ndatafile: LIST 2\na.raw\ntype: short'));
    expect([list.dataFiles, list.fields.has('type'), list.isWhole]).toEqual([
      ['a.raw', 'type: short'],
      false,
      false,
    ]);
    const long = parseNrrdHeader(
      Buffer.from(`a: 1\nb: ${'x'.repeat((1 << 16) - 3)}\nc: ${'x'.repeat((1 << 16) - 2)}\n\n`),
    );
    expect([...long.fields.keys()]).toEqual(['a', 'b']);
  });

  test.each([
    ['a%03d.raw 1 7 3', ['a001.raw', 'a004.raw', 'a007.raw']],
    ['a%3d.raw 9 10', ['a  9.raw', 'a 10.raw']],
    ['a b%d.raw 2 1 -1 2', ['a b2.raw', 'a b1.raw']],
    ['a%d.raw 1', ['a%d.raw 1']],
    ['a%d.raw 1 2 1 1 1', ['a%d.raw 1 2 1 1 1']],
    ['a.raw 1 2', ['a.raw 1 2']],
    ['a%d.raw 5 1', []],
    ['a%d.raw 1 2 0', []],
    ['a%d.raw 1 100001', []],
    ['lists.raw', ['lists.raw']],
  ])('The data files named by the words %j are found', (words, files) => {
    expect(parseMetaHeader(Buffer.from(`ElementDataFile = ${words}`))?.dataFiles).toEqual(files);
  });
});

describe('The data layout', () => {
  const layout = (voxels: number, before: number | null = 0, isPacked: boolean | null = false) => ({
    voxels,
    before,
    isPacked,
  });
  const par = (...images: string[]) =>
    lines('# comment', '.    Recon resolution (x, y)  :   3   2', ...images);
  const afni = (types: string) =>
    `type = integer-attribute\nname = DATASET_DIMENSIONS\ncount = 3\n 4 3 2 0\n\ntype = integer-attribute\nname = BRICK_TYPES\ncount = 2\n ${types}\n`;
  test.each<[string, string | Buffer, object | null]>([
    ['a.mhd', meta('ElementDataFile = a.raw'), layout(16)],
    [
      'a.mhd',
      meta('HeaderSize = 7', 'CompressedData = True', 'ElementNumberOfChannels = 3', 'ElementDataFile = a'),
      layout(48, 7, true),
    ],
    [
      'a.mha',
      meta('HeaderSize = -1', 'ElementDataFile = a').replace('SHORT', 'DOUBLE_ARRAY'),
      layout(64, null),
    ],
    ['a.mhd', meta('ElementDataFile = a').replace('SHORT', 'ULONG_LONG'), layout(64)],
    ['a.mhd', meta('ElementDataFile = a').replace('SHORT', 'OTHER'), null],
    ['a.mhd', meta('ElementDataFile = a').replace('2 2 2', '2 0 2'), null],
    ['a.mhd', meta('HeaderSize = x', 'ElementDataFile = a'), null],
    ['a.mhd', meta(), null],
    ['a.nhdr', nrrd('data file: a'), layout(16)],
    ['a.nhdr', nrrd('byteskip: 5').replace('raw', 'GZIP'), layout(16, 5, true)],
    ['a.nhdr', nrrd('byte skip: -1').replace('raw', 'gz'), layout(16, null, true)],
    ['a.nhdr', lines('NRRD0004', 'sizes: 2 2', 'type: unsigned long long int'), layout(32)],
    ['a.nhdr', nrrd().replace('short', 'uint8_t'), layout(8)],
    ['a.nhdr', nrrd().replace('short', 'Float'), layout(32)],
    ['a.nhdr', nrrd('blocksize: 6').replace('short', 'block'), layout(48)],
    ['a.nhdr', nrrd().replace('short', 'block'), null],
    ['a.nhdr', nrrd('lineskip: 1'), null],
    ['a.nhdr', nrrd('line skip: 0'), layout(16)],
    ['a.nhdr', nrrd().replace('raw', 'ascii'), null],
    ['a.par', par('.    Image pixel size [8 or 16 bits]  :   16', '  1 1 1', ' 2 1 1'), layout(24)],
    ['a.par', lines('  1 1 1 1 0 0 0 16 0 3 2', ' 2 1 1 1 0 0 0 8 0 3 2'), layout(18)],
    ['a.par', par('  1 1 1'), null],
    ['a.par', 'no image', null],
    ['b+orig.head', afni('1 3'), layout(24 * 6, 0, null)],
    ['b+orig.HEAD', afni('0 6'), layout(24 * 4, 0, null)],
    ['b+orig.head', afni('1 9'), null],
    ['a.nii', 'any', null],
  ])('The data layout of %s matches its header (%#)', (name, content, found) => {
    expect(dataLayoutOf(`dir/${name}`, reading(content))).toEqual(found);
  });

  /** A header of NIfTI, which says the type of a value and its bits. */
  const nifti = (
    bits: number,
    given: Partial<Parameters<typeof niftiHeader>[0]> = {},
    type = { 1: 1, 8: 2, 16: 4, 32: 8 }[bits] ?? 0,
  ) => {
    const header = niftiHeader({ size: [3, 2, 4], ...given });
    const at = given.isSecond ? 12 : 70;
    for (const [index, each] of [type, bits].entries())
      if (given.isBig) header.writeInt16BE(each, at + 2 * index);
      else header.writeInt16LE(each, at + 2 * index);
    return header;
  };
  test.each<[string, Buffer, object | null]>([
    ['first', nifti(16, { magic: 'ni1', start: 9 }), layout(48, 9, null)],
    ['first, big', nifti(16, { magic: 'ni1', isBig: true }), layout(48, 0, null)],
    ['second', nifti(32, { isSecond: true, magic: 'ni2' }), layout(96, 0, null)],
    [
      'second, big, packed',
      gzip(nifti(8, { isSecond: true, isBig: true, magic: 'ni2', start: 8 })),
      layout(24, 8, null),
    ],
    ['single bits', nifti(1, { size: [3, 3, 1] }), layout(2, 352, null)],
    ['an axis of nothing', nifti(8, { size: [3, 2, 4, 0] }), layout(24, 352, null)],
    ['a start before the file', nifti(8, { start: -9 }), layout(24, 0, null)],
    ['bits that are not those of its type', nifti(8, {}, 4), layout(48, 352, null)],
    ['no axes', nifti(8, { size: [] }), null],
    ['no bits', nifti(0), null],
    ['too short', nifti(8).subarray(0, 347), null],
    ['second, too short', nifti(8, { isSecond: true }).subarray(0, 539), null],
    ['damaged gzip', Buffer.from([0x1f, 0x8b, 1, 2, 3]), null],
    ['of another kind', Buffer.alloc(400), null],
  ])('The data layout of a NIfTI header is read: %s', (_, content, found) => {
    expect(dataLayoutOf('a.hdr', reading(content as never))).toEqual(found);
  });
});
