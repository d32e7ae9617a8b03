import { rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { otherContent } from '../../../src/imaging/inputs/contents.js';
import { splitCompanions, splitCopies } from '../../../src/imaging/inputs/duplicates.js';
import { entriesOf, lookAt, Obstacles } from '../../../src/imaging/inputs/entries.js';
import { formatNameOf, formatOf, isSidecar, isVolumeContent } from '../../../src/imaging/inputs/formats.js';
import { foundOnTheWay, matchesOf, splitPattern } from '../../../src/imaging/inputs/glob.js';
import { isPlaceholder, linkFault } from '../../../src/imaging/inputs/placeholders.js';
import { countSlices, type Recognised, recognise } from '../../../src/imaging/inputs/recognise.js';
import { checkReplaceable } from '../../../src/imaging/inputs/replaceable.js';
import { dicom, plant, temporary } from '../../support/temporary.js';

const latin = (text: string, at = 0, length = 300): Buffer => {
  const bytes = Buffer.alloc(length);
  bytes.write(text, at, 'latin1');
  return bytes;
};

describe('what a file is by its first bytes', () => {
  test.each([
    ['a PDF document', ['%PDF-']],
    ['a zip archive', ['PK\u0003\u0004', 'PK\u0005\u0006']],
    ['a picture', ['\u0089PNG\r\n', '\u00ff\u00d8\u00ff', 'GIF87a', 'GIF89a', 'II*\0', 'MM\0*', '8BPS']],
    [
      'a packed file',
      ['\u001f\u008b\u0008', 'BZh', '\u00fd7zXZ\0', '7z\u00bc\u00af', '(\u00b5/\u00fd', 'Rar!'],
    ],
    ['a database', ['SQLite format 3\0']],
    ['a document of an office program', ['\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1']],
    ['a program', ['\u007fELF', '\u00cf\u00fa\u00ed\u00fe', '\u00ca\u00fe\u00ba\u00be']],
    ['sound or video', ['RIFF', 'OggS', 'ID3', 'fLaC']],
    [null, ['\u0000', 'GIF88a', 'xRIFF']],
  ])('What a file is by its first bytes is %s', (what, starts) => {
    expect(starts.map((start) => otherContent(latin(start)))).toEqual(starts.map(() => what));
  });

  test('What a file is by its first bytes is told by what lies further behind, and text by its characters', () => {
    expect([otherContent(latin('ustar', 257)), otherContent(latin('ustar', 256))]).toEqual([
      'a tar archive',
      null,
    ]);
    expect([otherContent(latin('ftyp', 4)), otherContent(latin('ftyp', 3))]).toEqual([
      'sound or video',
      null,
    ]);
    const cut = Buffer.from('Schädel ü').subarray(0, -1);
    expect([Buffer.from('ab\t\nab'), cut].map(otherContent)).toEqual(['text', 'text']);
    // Voxels of few values, control characters, and what is no UTF-8.
    const no = [
      Buffer.from('abcabc'),
      Buffer.from('abcd\u0001'),
      Buffer.from('abcd\u007f'),
      latin('ab\u00e4cd', 0, 5),
    ];
    expect(no.map(otherContent)).toEqual([null, null, null, null]);
  });

  test('What a file is by its first bytes is a volume of a known format', () => {
    const mgh = (change: (bytes: Buffer) => void = () => {}, length = 284) => {
      const bytes = Buffer.alloc(length);
      for (const [at, value] of [1, 2, 3, 4].entries()) bytes.writeInt32BE(value, at * 4);
      change(bytes);
      return isVolumeContent(bytes);
    };
    expect([mgh(), mgh(() => {}, 283)]).toEqual([true, false]);
    expect([2, 5].map((type) => mgh((bytes) => bytes.writeInt32BE(type, 20)))).toEqual([false, false]);
    expect([1, 3, 4, 10].map((type) => mgh((bytes) => bytes.writeInt32BE(type, 20)))).toEqual(
      Array(4).fill(true),
    );
    expect(mgh((bytes) => bytes.writeInt32BE(2, 0))).toBe(false);
    for (const at of [4, 8, 12])
      expect([0, 65_536].map((size) => mgh((bytes) => bytes.writeUInt32BE(size, at)))).toEqual([
        false,
        false,
      ]);
    const texts = ['# === DATA DESCRIPTION FILE', ' type = string-attribute', 'type=float-attribute\n'];
    expect(texts.map((text) => isVolumeContent(latin(text)))).toEqual([true, true, true]);
    expect(isVolumeContent(latin('type = other-attribute'))).toBe(false);
    expect(
      [256, 255].map((length) => isVolumeContent(latin('\u00ef\u00ff\u00e9\u00b0', 252, length))),
    ).toEqual([...[true, false]]);
  });

  test('What a file is by its first bytes goes before its name', () => {
    const of = (name: string, start: Buffer) => formatOf(name, start)?.name ?? null;
    expect([of('a.nrrd', latin('MATRIX7')), of('a.nrrd', latin('?')), of('a', latin('?'))]).toEqual([
      ...['ECAT', 'NRRD', null],
    ]);
    expect(formatOf('a.png', latin('?'))?.isPicture).toBe(true);
  });
});

test('Formats have these endings, in any case', () => {
  const endings = {
    'packed directory': '.konfaidir.zip',
    NIfTI: '.nii .nii.gz',
    'NIfTI or ANALYZE pair': '.hdr .hdr.gz .img .img.gz',
    MetaImage: '.mha .mhd',
    'raw voxels': '.raw .raw.gz .zraw',
    NRRD: '.nrrd .nhdr',
    FreeSurfer: '.mgh .mgz .mgh.gz',
    MINC: '.mnc .mnc.gz',
    AFNI: '.head .brik .brik.gz .brik.bz2',
    'Philips PAR/REC': '.par .rec',
    GIPL: '.gipl .gipl.gz',
    ECAT: '.v',
    HDF5: '.h5 .hdf5 .hdf .ims',
    TIFF: '.tif .tiff .btf .svs .ndpi .scn .qptiff .lsm',
    microscopy: '.czi .lif .nd2 .oib .oif .vsi .mrxs .bif',
    VTK: '.vti .vtk',
    NumPy: '.npy .npz',
    picture: '.png .jpg .jpeg .bmp .webp .gif',
    DICOM: '.dcm .dicom .ima .dcm.gz',
  };
  for (const [format, all] of Object.entries(endings))
    expect(all.split(' ').map((each) => formatNameOf(`in.1/A.b${each.toUpperCase()}`))).toEqual(
      all.split(' ').map(() => format),
    );
  expect(['a.gz', 'a.nii.zip', 'nii', 'dcm'].map(formatNameOf)).toEqual([null, null, null, null]);
  const sidecars =
    'a.json a.bval a.bvec a.txt a.tsv a.csv a.md a.rst a.cff a.pdf a.doc a.docx a.xlsx a.htm a.html a.xml a.log a.md5 a.sha256 ' +
    'a.lut a.py a.inf a.ini a.exe a.dll a.bat a.lnk a.ico a.chm a.url a.txt.gz a.CSV.gz CHANGES changelog LICENCE License';
  expect(sidecars.split(' ').filter((name) => !isSidecar(`in/${name}`))).toEqual([]);
});

test('What was not fetched is told with what to do about it', async () => {
  await using root = await temporary();
  await plant(root.path, {
    'annex.nii': '/annex/objects/SHA256E-s5--a.nii\n',
    'lfs.nii': 'version https://git-lfs.github.com/spec/v1\n',
    'dvc.nii.DVC': 'md5: x',
    'odrive.nii.cloud': '',
    'folder.cloudf': '',
    '.icloud.nii.icloud': 'x',
    'other.nii': 'version 1',
    '.icloud': 'x',
    'here.nii.cloud': '',
    'here.nii': 'x',
  });
  symlinkSync('../x/.git/annex/objects/k', path.join(root.path, 'link.nii'));
  symlinkSync('gone', path.join(root.path, 'gone.nii'));
  const at = (name: string) => path.join(root.path, name);
  const told = (of: string, remedy: string) =>
    `has no content on this machine, since ${of} did not fetch it; ${remedy}`;
  const annex = told('git-annex', "run 'datalad get' or 'git annex get'");
  const faults = {
    'annex.nii': annex,
    'link.nii': annex,
    'lfs.nii': told('Git LFS', "run 'git lfs pull'"),
    'dvc.nii.DVC': told('DVC', "run 'dvc pull'"),
    'odrive.nii.cloud': told('odrive', "run 'odrive sync' with its path"),
    'folder.cloudf': told('odrive', "run 'odrive sync' with its path"),
    '.icloud.nii.icloud': told('iCloud', "choose Download Now in the Finder, or run 'brctl download'"),
    'gone.nii': "is a link to 'gone', which does not exist",
    ...{ 'other.nii': null, '.icloud': null, 'here.nii.cloud': null },
  };
  const names = Object.keys(faults);
  expect(Object.fromEntries(names.map((name) => [name, lookAt(at(name))?.fault ?? null]))).toEqual(faults);
  expect(names.filter((name) => isPlaceholder(at(name)))).toEqual(names.slice(0, 7));
  expect(linkFault('nowhere')).toBeNull();
});

describe('a path', () => {
  test('A path that cannot be sent says why', async () => {
    await using root = await temporary();
    const at = (name: string) => path.join(root.path, name);
    await plant(root.path, { 'a.nii': 'abc', 'b/': '' });
    symlinkSync('gone', at('dangling'));
    symlinkSync('a.nii', at('link'));
    const server = createServer().listen(at('socket'));
    await new Promise((resolve) => server.once('listening', resolve));
    const faultOf = (target: string) => lookAt(target)?.fault;
    expect([faultOf(at('socket')), faultOf('/dev/null')]).toEqual([
      'is neither a file nor a directory but a socket',
      'is neither a file nor a directory but a device',
    ]);
    server.close();
    expect(faultOf(at('dangling'))).toBe("is a link to 'gone', which does not exist");
    expect([lookAt(at('none')), lookAt(at('a.nii/x')), lookAt(at('link/x'))]).toEqual([null, null, null]);
    expect([lookAt(at('link'))?.stats?.size, lookAt(at('b'))?.stats?.isDirectory()]).toEqual([3, true]);
    expect(faultOf(at('x'.repeat(300)))).toMatch(/^cannot be read: /);
  });

  test('A path in a directory is listed with what it leads to, in the order of names', async () => {
    await using root = await temporary();
    await plant(root.path, { 'd/a10': '12', 'd/a9': '1', 'd/gone': '1', 'd/skip': 'x', 'd/sub/': '' });
    symlinkSync('sub', path.join(root.path, 'd/link'));
    symlinkSync('gone', path.join(root.path, 'd/z'));
    const obstacles = new Obstacles();
    const directory = path.join(root.path, 'd');
    const isWanted = (name: string, target: string) => {
      // Somebody removes it meanwhile.
      if (name === 'gone') rmSync(target);
      return name !== 'skip';
    };
    const entries = await entriesOf(directory, isWanted, obstacles);
    const file = { isDirectory: false, isLink: false };
    expect(entries).toHaveLength(4);
    expect(entries).toMatchObject([
      { name: 'a9', path: path.join(directory, 'a9'), ...file, size: 1 },
      { name: 'a10', path: path.join(directory, 'a10'), ...file, size: 2 },
      { name: 'link', isDirectory: true, isLink: true },
      { name: 'sub', isDirectory: true, isLink: false },
    ]);
    expect(obstacles.all.map((each) => each.path)).toEqual([path.join(directory, 'z')]);
    expect(await entriesOf(path.join(root.path, 'none'), () => true, obstacles)).toEqual([]);
    expect(obstacles.all[1]?.sentence).toMatch(/none' cannot be read: /);
  });

  test('A path is no input where a result could replace it, by whatever way it is there', async () => {
    await using root = await temporary();
    const at = (name: string) => path.join(root.path, name);
    await plant(root.path, { 'Out/a.nii': 'x', 'Out/sub/b.nii': 'x', 'Output/c.nii': 'x', 'in/d.nii': 'x' });
    symlinkSync('../Out/a.nii', at('in/to'));
    symlinkSync('../in/d.nii', at('Out/from'));
    symlinkSync('Out', at('also'));
    const refused = (output: string) => {
      const obstacles = new Obstacles();
      const names = ['Out/a.nii', 'Out/sub/b.nii', 'Output/c.nii', 'in/d.nii', 'in/to', 'Out/from', 'gone/x'];
      checkReplaceable(names.map(at), at(output), obstacles);
      return obstacles.all;
    };
    const wanted = ['Out/a.nii', 'Out/sub/b.nii', 'in/to', 'Out/from'].map(at);
    expect(refused('Out').map((each) => each.path)).toEqual(wanted);
    expect(refused('also').map((each) => each.path)).toEqual(wanted);
    expect(refused('none')).toEqual([]);
    expect(refused('Out')[0]?.sentence).toBe(
      `'${at('Out/a.nii')}' is in the directory that results go to, where one of them could replace it; ` +
        'name another directory with --output',
    );
  });
});

test('A pattern begins with the directories that are there, and says which it passes without naming them', async () => {
  await using root = await temporary();
  await plant(root.path, { 'in/a[1]/b/x.nii': 'x', 'in/c.nii': 'x' });
  const at = (name: string) => path.join(root.path, name);
  expect([splitPattern(at('in/a[1]/*/x')), splitPattern('*/x.nii'), splitPattern('/*')]).toEqual([
    { directory: at('in/a[1]'), rest: '*/x' },
    { directory: '', rest: '*/x.nii' },
    { directory: '/', rest: '*' },
  ]);
  expect(foundOnTheWay(at('*/*/b/*.nii'), at('in/a[1]/b/x.nii'))).toEqual(
    ['in', 'in/a[1]', 'in/a[1]/b/x.nii'].map(at),
  );
  expect(foundOnTheWay(at('in/**'), at('in/a[1]'))).toEqual([at('in/a[1]')]);
  // A link to a directory above, a FIFO and a dangling link are found by a pattern as well; the first is not entered.
  symlinkSync('.', at('in/again'));
  symlinkSync('a[1]', at('in/link'));
  symlinkSync('gone', at('in/z'));
  expect(await matchesOf(at('in/*'))).toEqual(['in/a[1]', 'in/c.nii', 'in/link', 'in/z'].map(at));
  expect(await matchesOf(at('in/**/x.nii'))).toEqual(['in/a[1]/b/x.nii', 'in/link/b/x.nii'].map(at));
  expect(await matchesOf(at('in/c.nii'))).toEqual([]);
});

test('Files are recognised in their order, whichever is read first, and those that are DICOM are counted', async () => {
  await using root = await temporary();
  await plant(root.path, {
    'a.dcm': 'x',
    'a2.dcm': 'MATRIX7',
    b: dicom,
    'c.png': 'x',
    'd.x': 'NRRD0004\n',
    'e.dcm': '',
  });
  const at = (name: string) => path.join(root.path, name);
  const files = ['a.dcm', 'a2.dcm', 'b', 'c.png', 'd.x', 'e.dcm', 'gone'].map((name) => ({
    path: at(name),
    size: name === 'e.dcm' ? 0 : 1,
  }));
  const told: number[][] = [];
  const obstacles = new Obstacles();
  const found = await recognise(files, obstacles, (...counts) => told.push(counts));
  expect(found.map(({ path: file, format, isPicture }) => [path.basename(file), format, isPicture])).toEqual([
    ['a.dcm', 'DICOM', false],
    ['a2.dcm', 'ECAT', false],
    ['b', 'DICOM', false],
    ['c.png', 'picture', true],
    ['d.x', 'NRRD', false],
    ['e.dcm', 'DICOM', false],
  ]);
  expect(obstacles.all.map((each) => each.path)).toEqual([at('gone')]);
  expect(obstacles.all[0]?.sentence).toMatch(/gone' cannot be read: /);
  expect(told).toEqual([1, 2, 3, 4, 5, 6, 7].map((done) => [done, 7]));
  const count = (...names: string[]) => countSlices(names.map(at));
  expect([count(), count('b'), count('b', 'c.png', 'b'), count('c.png', 'b'), count('gone')]).toEqual([
    ...[0, 1, 2, 0, 0],
  ]);
});

test('Copies are what has the identifier and the content of another, probabilities what has its name', async () => {
  await using root = await temporary();
  const image = (name: string, content: string, instanceUid: string | null) => {
    const file = path.join(root.path, name);
    writeFileSync(file, content);
    return { path: file, size: content.length, header: { instanceUid }, format: 'DICOM' } as Recognised;
  };
  const [a, b, c, d, e] = [
    image('a', 'one', '1'),
    image('b', 'one', '1'),
    image('c', 'two', '1'),
    image('d', 'one', null),
    image('e', 'one', null),
  ] as const;
  expect(splitCopies([a, b, c, d, e])).toEqual({ images: [a, c, d, e], copies: [b] });
  // Large files are not compared.
  const large = ['f', 'g'].map((name) => ({ ...image(name, '', '2'), size: (64 << 20) + 1 }));
  for (const file of large) truncateSync(file.path, file.size);
  expect(splitCopies(large)).toEqual({ images: large, copies: [] });
  const volume = (name: string) => ({ path: `/in/${name}` }) as Recognised;
  const [scan, own, other] = [volume('x.nii.gz'), volume('x.NPZ'), volume('y.npz')];
  expect(splitCompanions([scan, own, other])).toEqual([[own], [scan, other]]);
});
