import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { writeNifti } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { remarksOn, type Unit } from '../../../src/client/found-files.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { collect } from '../../client/support/collect.js';
import { straight } from '../../support/affine.js';
import { dicom, plant, temporary } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';

/** Kinds and names relative to the root. */
async function units(root: string, ...paths: string[]): Promise<string[]> {
  const { units: found } = await collect(paths.map((each) => path.join(root, each)));
  return found.map((unit) => `${unit.kind} ${path.relative(root, unit.path).replaceAll(path.sep, '/')}`);
}

/** An element of a DICOM data set in little endian; implicit without a value representation. */
function element(group: number, number: number, vr: string | null, value: string): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt16LE(group, 0);
  head.writeUInt16LE(number, 2);
  if (vr === null) head.writeUInt32LE(value.length, 4);
  else {
    head.write(vr, 4, 'latin1');
    head.writeUInt16LE(value.length, 6);
  }
  return Buffer.concat([head, Buffer.from(value, 'latin1')]);
}

describe('the volumes that paths name', () => {
  test('A file is one volume, and its size is known', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'a.nii': 'abc' });
    const file = path.join(directory.path, 'a.nii');
    expect((await collect([file])).units).toMatchObject([
      { kind: 'file', path: file, size: 3, format: 'NIfTI' },
    ]);
  });

  test('A NIfTI file without a unit gets a remark for its record and its row', async () => {
    await using directory = await temporary();
    const [file, plain] = ['a.nii', 'b.nii'].map((name) => path.join(directory.path, name)) as [
      string,
      string,
    ];
    const affine = straight([-1, -1, 1]);
    await writeNifti(plain, { size: [1, 1, 2], affine, data: Uint8Array.of(1, 2) });
    const bytes = await readFile(plain);
    bytes[123] = 0;
    await writeFile(file, bytes);
    const [first, second] = (await collect([file, plain])).units;
    expect(first?.remarks).toEqual(['does not say its unit of length: millimetres are a guess']);
    expect(second?.remarks).toBeUndefined();
    const group = [first, second].map((unit) => ({
      ...(unit as Unit),
      name: 'scan',
      isHalf: false,
      headers: [],
    }));
    const field = fieldWithRole(operationOf('infer'), 'paths');
    expect(remarksOn({ volumes: [{ field, groups: [group] }] })).toEqual([
      "'scan' does not say its unit of length: millimetres are a guess",
    ]);
  });

  test('A directory is walked in name order, without its hidden files', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'b.nii': 'x',
      'a/z.nii': 'x',
      'a/.DS_Store': 'x',
      '.git/config': 'x',
      'c.nii': 'x',
    });
    expect(await units(directory.path, '')).toEqual(['file a/z.nii', 'file b.nii', 'file c.nii']);
  });

  test('Files that systems and storage devices leave in directories are not sent', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'a.nii': 'x',
      'a.nii:Zone.Identifier': '[ZoneTransfer]',
      '#recycle/old.nii': 'x',
      '$RECYCLE.BIN/old.nii': 'x',
      '@eaDir/a.nii': 'a preview',
      'lost+found/b.nii': 'x',
      'Icon\r': '',
      'deep/$Recycle.Bin/old.nii': 'x',
      'deep/found.nii': 'x',
    });
    expect(await units(directory.path, '')).toEqual(['file a.nii', 'file deep/found.nii']);
  });

  test('A glob matches in name order', async () => {
    await using directory = await temporary();
    await plant(directory.path, { '2.nii': 'x', '1.nii': 'x', 'notes.txt': 'x' });
    expect(await units(directory.path, '*.nii')).toEqual(['file 1.nii', 'file 2.nii']);
  });

  test('A name with the characters of a glob is taken literally if it exists', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'scan[1].nii': 'x', 'scan1.nii': 'x' });
    expect(await units(directory.path, 'scan[1].nii')).toEqual(['file scan[1].nii']);
  });

  test.each([
    ["Dr. O'Neil (2)/*.nii", "Dr. O'Neil (2)/a.nii"],
    ['Dr. *(2)/*.nii', "Dr. O'Neil (2)/a.nii"],
    ['*(2)/a*', "Dr. O'Neil (2)/a.nii"],
    ['[old] {a,b}! #1/*.nii', '[old] {a,b}! #1/a.nii'],
    ['[old] {a,b}! #1/s/*', '[old] {a,b}! #1/s/b.nii'],
    ['!important/*.nii', '!important/c.nii'],
    ['x/!*.nii', 'x/!d.nii'],
    ['x/+(e)|@(f)*', 'x/+(e)|@(f).nii'],
    ['{x,y}/(g)*', 'x/(g).nii'],
    ['x/?(g).nii', 'x/1(g).nii'],
    ['.hidden (1)/[!i].nii', '.hidden (1)/h.nii'],
  ])('Existing directories are literal in a pattern, and so are parentheses: %s', async (pattern, found) => {
    await using directory = await temporary();
    const names = [
      "Dr. O'Neil (2)/a.nii",
      "Dr. O'Neil 2/z.nii",
      '[old] {a,b}! #1/a.nii',
      '[old] {a,b}! #1/s/b.nii',
      '!important/c.nii',
      'x/!d.nii',
      'x/+(e)|@(f).nii',
      'x/(g).nii',
      'x/1(g).nii',
      'x/ee.nii',
      '.hidden (1)/h.nii',
      '.hidden (1)/i.nii',
    ];
    await plant(directory.path, Object.fromEntries(names.map((name) => [name, 'x'])));
    expect(await units(directory.path, pattern)).toEqual([`file ${found}`]);
  });

  test('A DICOM series is one volume, recognised by file extensions and by magic bytes', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'study/ct/1.dcm': 'old files have no magic',
      'study/ct/2.dcm': 'x',
      'study/mr/IM0001': dicom,
      'study/mr/IM0002': dicom,
    });
    expect(await units(directory.path, 'study')).toEqual(['series study/ct', 'series study/mr']);
  });

  test('A series is recognised although the first files of its directory are not slices', async () => {
    await using directory = await temporary();
    const scans = (name: string, count: number) =>
      Array.from({ length: count }, (_, at) => [`${name}/IM${String(at).padStart(4, '0')}`, dicom] as const);
    await plant(directory.path, {
      ...Object.fromEntries([...scans('photos', 3), ...scans('unknown', 9), ...scans('last', 1)]),
      'photos/A1.jpg': 'x',
      'photos/A2.jpg': 'x',
      'photos/A3.bak': 'x',
      'unknown/A1': 'x',
      'unknown/A2': 'x',
      'unknown/A3': 'x',
      'last/A1': 'x',
      'last/A2': 'x',
      'last/A3': 'x',
      'none/A1': 'x',
      'none/A2': 'x',
    });
    const series = ['photos', 'unknown', 'last'];
    expect(await units(directory.path, ...series, 'none')).toEqual([
      ...series.map((each) => `series ${each}`),
      'file none/A1',
      'file none/A2',
    ]);
  });

  test.each([
    [
      'a file with group 2 alone',
      element(2, 0, 'UL', '\xc4\0\0\0'),
      element(2, 0x10, 'UI', '1.2.840.10008.1.2\0'),
    ],
    ['explicit', element(8, 5, 'CS', 'ISO_IR 100'), element(8, 8, 'CS', 'ORIGINAL\\PRIMARY')],
    [
      'explicit, with an UID',
      element(8, 0x16, 'UI', '1.2.840.10008.5.1.4.1.1.4\0'),
      element(8, 0x18, 'UI', '1.2.3\0'),
    ],
    ['implicit, with a length', element(8, 0, null, '\xc4\0\0\0'), element(8, 1, null, '\xc4\x01\0\0')],
    ['implicit', element(8, 8, null, 'ORIGINAL\\PRIMARY'), element(8, 0x12, null, '20010203')],
  ])('Slices without a preamble are a series: %s', async (_, first, second) => {
    await using directory = await temporary();
    const slice = Buffer.concat([first, second, Buffer.alloc(64)]);
    await plant(directory.path, { 'ct/1': slice, 'ct/2': slice });
    expect(await units(directory.path, 'ct')).toEqual(['series ct']);
  });

  test.each([
    ['an unknown first element', element(8, 7, 'CS', 'ISO_IR 100'), element(8, 8, 'CS', 'X ')],
    ['another type', element(8, 5, 'OB', 'ISO_IR 100'), element(8, 8, 'CS', 'X ')],
    ['an odd length', element(8, 5, 'CS', 'ISO_IR 10'), element(8, 8, 'CS', 'X ')],
    ['bytes that are no text', element(8, 5, 'CS', 'ISO\x01\x02\x03'), element(8, 8, 'CS', 'X ')],
    ['an earlier element behind it', element(8, 8, 'CS', 'ORIGINAL'), element(8, 5, 'CS', 'X ')],
    ['another group behind it', element(8, 0, null, '\xc4\0\0\0'), element(0x1234, 1, null, 'X ')],
    ['nothing behind it', element(8, 5, 'CS', 'ISO_IR 100'), Buffer.alloc(0)],
    ['voxels that begin with 8 and 0', Buffer.from([8, 0, 0, 0, 4, 0, 0, 0, 9, 0]), Buffer.alloc(64, 7)],
  ])('A file that only resembles a slice is a volume of its own: %s', async (_, first, second) => {
    await using directory = await temporary();
    const file = Buffer.concat([first, second]);
    await plant(directory.path, { 'in/1': file, 'in/2': file });
    expect(await units(directory.path, 'in')).toEqual(['file in/1', 'file in/2']);
  });

  test('A single slice among other volumes is a volume, and a DICOMDIR is not', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'mixed/1.dcm': dicom,
      'mixed/a.nii.gz': 'x',
      'disc/AUTORUN.INF': 'x',
      'disc/DICOMDIR': dicom,
      'disc/VIEWER.EXE': 'x',
      'disc/s/1': dicom,
      'disc/s/DICOMDIR': dicom,
    });
    expect(await units(directory.path, 'mixed', 'disc')).toEqual([
      'file mixed/1.dcm',
      'file mixed/a.nii.gz',
      'series disc/s',
    ]);
  });

  test('Slices next to other volumes are one series without these', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'head/1.dcm': 'x',
      'head/2': dicom,
      'head/3.IMA': 'x',
      'head/notes.txt': 'x',
      'head/seg.nii.gz': 'x',
      'study/T1/1.dcm': dicom,
      'study/T1/more/report.pdf': 'x',
      'study/T2/a/1': dicom,
      'study/T2/a/2': dicom,
      'study/T2/scout1': dicom,
      'study/T2/scout2': dicom,
      'study/scout.dcm': dicom,
    });
    const found = await collect(['head', 'study'].map((each) => path.join(directory.path, each)));
    expect(found.skipped.map((each) => path.relative(directory.path, each))).toEqual([
      'head/notes.txt',
      'study/T1/more/report.pdf',
    ]);
    const content = found.units.map((unit) => [
      path.relative(directory.path, unit.path),
      'files' in unit ? unit.files.map(({ name }) => name) : unit.kind,
    ]);
    expect(content).toEqual([
      ['head', ['1.dcm', '2', '3.IMA']],
      ['head/seg.nii.gz', 'file'],
      ['study/T1', ['1.dcm']],
      ['study/T2/a', ['1', '2']],
      ['study/T2', ['scout1', 'scout2']],
      ['study', ['scout.dcm']],
    ]);
  });

  test('An empty slice next to other volumes is refused', async () => {
    await using directory = await temporary();
    await plant(directory.path, { '1.dcm': dicom, '2.dcm': '', 'a.nii': 'x' });
    await expect(units(directory.path, '')).rejects.toThrow(/2\.dcm' is empty/);
  });

  test('A series contains neither the result of an earlier run nor a link back to itself', async () => {
    await using directory = await temporary();
    await plant(directory.path, { '1.dcm': dicom, '2.dcm': dicom, 'Output/log.txt': 'x' });
    await symlink('.', path.join(directory.path, 'again'));
    const output = path.join(directory.path, 'Output');
    const sent = async () =>
      (await collect([directory.path], { output })).units.map((unit) =>
        'files' in unit ? unit.files.map(({ name }) => name) : unit.path,
      );
    expect(await sent()).toEqual([['1.dcm', '2.dcm']]);
    await plant(directory.path, { 'Output/mask.nii': 'x' });
    expect(await sent()).toEqual([['1.dcm', '2.dcm']]);
  });

  test('A Zarr store is one volume, recognised by its name and by its metadata', async () => {
    await using directory = await temporary();
    await plant(directory.path, { ...zarrStore('a.ome.zarr'), ...zarrStore('b') });
    expect(await units(directory.path, '')).toEqual(['store a.ome.zarr', 'store b']);
  });

  test('The result of an earlier run is skipped, unless a path names it', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': 'x', 'Output/mask.nii': 'x', 'Output/result.zip': 'x' });
    const output = path.join(directory.path, 'Output');
    const names = async (target: string, place = output) =>
      (await collect([target], { output: place })).units.map((unit) => path.basename(unit.path));
    expect(await names(directory.path)).toEqual(['ct.nii']);
    expect(await names(directory.path, path.relative('', output))).toEqual(['ct.nii']);
    expect(await names(output)).toEqual(['mask.nii']);
    expect(await names(path.join(output, 'result.zip'))).toEqual(['result.zip']);
  });

  test.each([[''], ['*.nii'], ['study*']])('A name that is not UTF-8 is refused for %j', async (given) => {
    await using directory = await temporary();
    await plant(directory.path, { 'study/ok.nii': 'x', 'ok.nii': 'x' });
    for (const below of ['', 'study/']) {
      const name = Buffer.from('\xe9tude.nii', 'latin1');
      await writeFile(Buffer.concat([Buffer.from(`${directory.path}/${below}`), name]), 'x');
    }
    const found = units(directory.path, given);
    await expect(found).rejects.toThrow(UsageError);
    await expect(found).rejects.toThrow(/tude\.nii' has a name that is not UTF-8; rename it/);
  });

  test('A directory name that is not UTF-8 is refused if a glob enters it', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'a/ct.nii': 'x' });
    const misnamed = Buffer.from(`${directory.path}/ren\xe9`, 'latin1');
    await mkdir(misnamed);
    await writeFile(Buffer.concat([misnamed, Buffer.from('/ct.nii')]), 'x');
    await expect(units(directory.path, '*/ct.nii')).rejects.toThrow(
      /ren\ufffd' has a name that is not UTF-8/,
    );
    expect(await units(directory.path, 'a/*.nii')).toEqual(['file a/ct.nii']);
  });

  test('A hidden file is skipped, whatever its name', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ok.nii': 'x' });
    await writeFile(Buffer.from(`${directory.path}/.\xe9`, 'latin1'), 'x');
    expect(await units(directory.path, '')).toEqual(['file ok.nii']);
  });

  test('Files of a matched directory are sent once, even if the pattern matches them as well', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 's/a.nii': 'x', 's/below/b.nii': 'x' });
    expect(await units(directory.path, 's/**')).toEqual(['file s/a.nii', 'file s/below/b.nii']);
  });

  test.each([
    ['missing.nii', /^No such file or directory: '.*missing\.nii'$/],
    ['*.nii', /^No such file or directory: '.*\*\.nii'$/],
    ['plain.mha/', /^No such file or directory: '.*plain\.mha\/'$/],
    ['empty', /empty' contains no file to send$/],
  ])('%s names nothing to send, and the error says so', async (name, sentence) => {
    await using directory = await temporary();
    await plant(directory.path, { 'empty/': 'x', 'plain.mha': 'x' });
    await expect(units(directory.path, name)).rejects.toThrow(UsageError);
    await expect(units(directory.path, name)).rejects.toThrow(sentence);
  });
});
