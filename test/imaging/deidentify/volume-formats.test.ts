import { writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { gunzipSync, inflateSync } from 'node:zlib';
import { readVolume } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import { fieldWithRole, operationOf } from '../../../src/contract/index.js';
import { cleanedVolume } from '../../../src/imaging/deidentify/volume-file.js';
import { memoryReporter } from '../../client/support/connect.js';
import { bytesOf, outgoing } from '../../client/support/outgoing.js';
import { stage } from '../../client/support/stage.js';
import * as canary from '../../support/canary-volumes.js';
import { dicomFile, type Element, element } from '../../support/dicom-files.js';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';
import { parsed } from './cleaned.js';

const word = 'Quokkavale';

/** The files of a submission of paths as they leave, by their names. */
async function cleaned(
  files: Readonly<Record<string, string | Buffer>>,
  paths: readonly string[],
  mode: 'full' | 'names' = 'full',
) {
  await using directory = await temporary();
  await plant(directory.path, files);
  const operation = operationOf('infer');
  const groups = [paths.map((each) => path.join(directory.path, each))];
  const submission = {
    ...{ operation, app: 'tissue', fields: {}, options: {}, archive: null },
    files: [{ field: fieldWithRole(operation, 'paths'), groups }],
  };
  const neutral = await outgoing(path.join(directory.path, 'config'), mode);
  const staged = await stage(submission, memoryReporter(), undefined, {}, neutral);
  const sent = new Map(staged.parts.map((part) => [part.filename, bytesOf(part)]));
  await staged[Symbol.asyncDispose]();
  return sent;
}

/** Everything in bytes, with what is packed in them. */
function unpacked(bytes: Buffer): string {
  const texts = [bytes.toString('latin1')];
  for (const [start, unpack] of [
    ['\x1f\x8b', gunzipSync],
    ['\x78\x01', inflateSync],
    ['\x78\x9c', inflateSync],
  ] as const) {
    const at = bytes.indexOf(start, 0, 'latin1');
    if (at >= 0) texts.push(unpack(bytes.subarray(at)).toString('latin1'));
  }
  return texts.join('\n');
}

/** The geometry and the voxels of the files of one volume. */
async function read(files: ReadonlyMap<string, Buffer> | Readonly<Record<string, Buffer>>, name: string) {
  await using directory = await temporary();
  await mkdir(directory.path, { recursive: true });
  for (const [each, bytes] of files instanceof Map ? files : Object.entries(files))
    writeFileSync(path.join(directory.path, each), bytes as Buffer);
  const { size, affine, data } = await readVolume(path.join(directory.path, name));
  return { size, affine, data };
}

const whole: readonly (readonly [name: string, bytes: Buffer])[] = [
  ['a.nii', canary.nifti(word)],
  ['b.nii', canary.nifti(word, { isBig: true })],
  ['c.nii', canary.nifti(word, { second: true })],
  ['d.nii.gz', canary.gzipWithWords(canary.nifti(word), word)],
  ['e.nii.gz', canary.gzipWithWords(canary.nifti(word, { second: true, isBig: true }), word)],
  ['f.nrrd', canary.nrrd(word)],
  ['g.nrrd', canary.nrrd(word, true)],
  ['h.mha', canary.metaImage(word)],
  ['i.mha', canary.metaImage(word, true)],
  ['j.mgh', canary.freeSurfer(word)],
  ['k.mgz', canary.gzipWithWords(canary.freeSurfer(word), word)],
];

describe('a volume in one file', () => {
  test.for(whole)(
    'A volume in one file is sent with its voxels, and without words: %s',
    async ([name, bytes]) => {
      expect(unpacked(bytes), 'the file has the word').toContain(word);
      const named = `${word}${path.extname(name) === '.gz' ? '.nii.gz' : path.extname(name)}`;
      const sent = await cleaned({ [`${word}/${named}`]: bytes }, [`${word}/${named}`]);
      const [[sentName = '', sentBytes = Buffer.alloc(0)] = []] = [...sent];
      expect(sentName).toBe(`case-0001${named.slice(word.length)}`);
      expect(unpacked(sentBytes)).not.toContain(word);
      expect(await read(sent, sentName)).toEqual(await read({ [name]: bytes }, name));
    },
  );

  test('A volume in one file is sent only with the fields on the list', async () => {
    const sent = await cleaned({ 'x.mha': canary.metaImage(word) }, ['x.mha']);
    const text = sent.get('case-0001.mha')?.toString('latin1') ?? '';
    expect(
      text
        .slice(0, text.indexOf('LOCAL'))
        .split('\n')
        .map((line) => line.split(' = ')[0]),
    ).toEqual(
      'ObjectType NDims BinaryData BinaryDataByteOrderMSB TransformMatrix Offset ElementSpacing DimSize AnatomicalOrientation ElementType ElementDataFile'.split(
        ' ',
      ),
    );
  });

  test.for(['x.mgh', 'x.mgz'])('A volume in one file keeps its parameters, and no text: %s', async (name) => {
    const pack = (bytes: Buffer) => (name === 'x.mgh' ? bytes : canary.gzipWithWords(bytes, word));
    const behind = async (bytes: Buffer) => {
      const sent = (await cleaned({ [name]: pack(bytes) }, [name])).values().next().value ?? Buffer.alloc(0);
      return (name === 'x.mgh' ? sent : gunzipSync(sent)).subarray(284 + canary.voxels.length);
    };
    const bytes = canary.freeSurfer(word);
    const end = 284 + canary.voxels.length;
    const numbers = await behind(bytes);
    expect([0, 4, 8, 12, 16].map((at) => numbers.readFloatBE(at).toFixed(6))).toEqual([
      '2300.000000',
      '0.157080',
      '2.980000',
      '900.000000',
      '256.000000',
    ]);
    expect(numbers).toHaveLength(20);
    expect(
      (await behind(Buffer.concat([bytes.subarray(0, end), Buffer.from('Ada Byron, 1815, A12')]))).toString(
        'latin1',
      ),
    ).not.toMatch(/Ada |Byro|1815|A12/);
    expect(await behind(bytes.subarray(0, end))).toHaveLength(0);
  });

  test('A volume in one file keeps nothing of its gzip header', async () => {
    const sent = await cleaned({ 'x.nii.gz': canary.gzipWithWords(canary.nifti(word), word) }, ['x.nii.gz']);
    const head = sent.get('case-0001.nii.gz')?.subarray(0, 9);
    expect([...(head ?? [])]).toEqual([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4]);
  });

  test('A volume in one file that has fewer voxels than its header says is refused', async () => {
    const short = canary.nifti(word).subarray(0, 430);
    await expect(cleaned({ 'x.nii': short }, ['x.nii'])).rejects.toThrow(/is cut short/);
    const packed = canary.gzipWithWords(short, word);
    await expect(cleaned({ 'x.nii.gz': packed }, ['x.nii.gz'])).rejects.toThrow(
      /is cut short: its header says/,
    );
  });
});

test('Bytes after the voxels count as removed only if some are not sent', async () => {
  await using directory = await temporary();
  const whole = canary.freeSurfer(word);
  await plant(directory.path, { 'tags.mgh': whole, 'plain.mgh': whole.subarray(0, -`tag ${word}`.length) });
  const removedOf = (name: string) => cleanedVolume(path.join(directory.path, name), () => null).removed;
  expect(removedOf('tags.mgh')).toContain('bytes behind the voxels');
  expect(removedOf('plain.mgh')).not.toContain('bytes behind the voxels');
  if (process.platform === 'linux') expect(openBelow(directory.path)).toEqual([]);
});

test('DICOM identifiers differ with the key of another profile', async () => {
  const pixels = new Int16Array(16);
  const more = [element(0x00100020, 'LO', '4711')];
  const scan = dicomFile({ pixels, size: [4, 4], position: [0, 0, 0], more });
  const patients: (string | undefined)[] = [];
  for (let profile = 0; profile < 2; profile += 1) {
    const [bytes] = (await cleaned({ 'x.dcm': scan }, ['x.dcm'])).values();
    patients.push(bytes && parsed(bytes).string('x00100020'));
  }
  expect(patients).toEqual([
    expect.stringMatching(/^[0-9A-F]{16}$/),
    expect.stringMatching(/^[0-9A-F]{16}$/),
  ]);
  expect(patients[0]).not.toBe(patients[1]);
});

describe('a volume of several files', () => {
  const raw = Buffer.concat([Buffer.from(word), canary.voxels, Buffer.from(word)]);
  const skipped = `byte skip: ${word.length}\n`;
  const headers = {
    [`${word}.nhdr`]: canary.nrrdText(word, 'raw', `${skipped}data file: ${word}.raw\n`),
    [`${word}.mhd`]: canary.metaText(word, `${word}.raw`, `HeaderSize = ${word.length}\n`),
  };

  test.for(Object.entries(headers))(
    'A volume of several files is sent only with its voxels, and its header names them anew: %s',
    async ([name, text]) => {
      const files = { [name]: Buffer.from(text), [`${word}.raw`]: raw };
      const sent = await cleaned(files, Object.keys(files));
      const ending = path.extname(name);
      expect([...sent.keys()]).toEqual([`case-0001${ending}`, 'case-0001.raw']);
      expect(Buffer.concat([...sent.values()]).toString('latin1')).not.toContain(word);
      expect(sent.get('case-0001.raw')).toEqual(canary.voxels);
      expect(await read(sent, `case-0001${ending}`)).toEqual(await read(files, name));
    },
  );

  test('A volume of several files is sent slice by slice in the order of its header', async () => {
    const slices = { 'zz.raw': canary.voxels.subarray(0, 24), 'aa.raw': canary.voxels.subarray(24) };
    const files = { 'x.mhd': Buffer.from(`${canary.metaText(word, 'LIST')}zz.raw\naa.raw\n`), ...slices };
    const sent = await cleaned(files, ['x.mhd']);
    expect(await read(sent, 'case-0001.mhd')).toEqual(await read(files, 'x.mhd'));
    expect(sent.get('case-0001.mhd')?.toString()).not.toMatch(/zz|aa/);
  });

  test.for(['', '.gz'])('A pair of NIfTI files is sent as a pair with one name: .img%s', async (packing) => {
    const pack = (bytes: Buffer) => (packing === '' ? bytes : canary.gzipWithWords(bytes, word));
    const files = {
      [`${word}.hdr${packing}`]: pack(canary.niftiHeader(word, { isPair: true })),
      [`${word}.img${packing}`]: pack(Buffer.concat([canary.voxels, Buffer.from(word)])),
    };
    const sent = await cleaned(files, Object.keys(files));
    expect([...sent.keys()]).toEqual([`case-0001.hdr${packing}`, `case-0001.img${packing}`]);
    for (const bytes of sent.values()) expect(unpacked(bytes)).not.toContain(word);
    for (const bytes of sent.values()) expect(bytes.readUInt16BE(0) === 0x1f8b).toBe(packing !== '');
    expect(await read(sent, `case-0001.hdr${packing}`)).toEqual(await read(files, `${word}.hdr${packing}`));
  });
});

test('DICOM is recognised by its content, whatever its name, and refused under its original name', async () => {
  const pixels = new Int16Array(16);
  const of = (more: readonly Element[] = []) =>
    dicomFile({ pixels, size: [4, 4], position: [0, 0, 0], more: [...more] });
  const [bytes = Buffer.alloc(0)] = (await cleaned({ IM0001: of() }, ['IM0001'])).values();
  expect(parsed(bytes).string('x00120062')).toBe('YES');
  const burned = canary.gzipWithWords(Buffer.from(of([element(0x00280301, 'CS', 'YES')])), word);
  await expect(cleaned({ 'x.dcm.gz': burned }, ['x.dcm.gz'])).rejects.toThrow(
    /\/x\.dcm\.gz' says that text is burned into its pixels.* leave it out or allow 'burned-in' with --allow-identifying burned-in$/,
  );
  await expect(
    cleaned({ 'y.dcm': of([element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.88.11')]) }, ['y.dcm']),
  ).rejects.toThrow(/y\.dcm' is a report, which describes a person in words; leave it out$/);
});

test('NIfTI voxels with an offset of 0 follow the header, and stay regular', async () => {
  const header = canary.niftiHeader(word).subarray(0, 348);
  header.writeFloatLE(0, 108);
  const bytes = Buffer.concat([header, Buffer.alloc(4), canary.voxels]);
  const sent = await cleaned({ 'a.nii': bytes }, ['a.nii']);
  expect(sent.get('case-0001.nii')?.toString('latin1', 38, 39)).toBe('r');
  expect((await read(sent, 'case-0001.nii')).data).toEqual(
    (await read({ 'a.nii': canary.nifti(word) }, 'a.nii')).data,
  );
});

test('All NIfTI voxels are sent according to their type, whatever number of bits the header states', async () => {
  const bytes = canary.nifti(word);
  bytes.writeInt16LE(8, 72);
  const sent = await cleaned({ 'a.nii': bytes }, ['a.nii']);
  expect(sent.get('case-0001.nii')?.subarray(352)).toEqual(canary.voxels);
});

test('A volume of DWI keeps its b-value and directions', async () => {
  const pairs =
    'modality:=DWMRI\nDWMRI_b-value:=1000\nDWMRI_gradient_0000:=0 0 0\nDWMRI_gradient_0001:=1e-1 0 -.9\n';
  const more = `${pairs}DWMRI_gradient_0002:=${word}\n`;
  const bytes = Buffer.concat([Buffer.from(canary.nrrdText(word, 'raw', more)), canary.voxels]);
  const sent = (await cleaned({ 'a.nrrd': bytes }, ['a.nrrd'])).get('case-0001.nrrd')?.toString('latin1');
  expect(sent).toContain(`\n${pairs}\n`);
  expect(sent).not.toContain(word);
});

test.each<[string, string, Buffer, string]>([
  [
    'its voxels in another file, and its name',
    'a.nii',
    canary.niftiHeader(word, { isPair: true }),
    'its header says that its voxels are in another file',
  ],
  [
    'numbers with units',
    'a.mha',
    Buffer.from(canary.metaImage(word).toString('latin1').replace('= 2 2 3', '= 2mm 2mm 3mm'), 'latin1'),
    "the numbers of 'ElementSpacing' cannot be read",
  ],
  [
    'numbers that are words',
    'a.nrrd',
    Buffer.from(canary.nrrd(word).toString('latin1').replace('(1,2,3)', 'one'), 'latin1'),
    "the numbers of 'spaceorigin' cannot be read",
  ],
  [
    'directions in other words',
    'a.nrrd',
    Buffer.from(canary.nrrd(word).toString('latin1').replace('left-posterior', 'left posterior'), 'latin1'),
    'the directions of its space are written in an unknown way',
  ],
])('A volume is refused if it would be misplaced without %s', async (_, name, bytes, why) => {
  await expect(cleaned({ [name]: bytes }, [name])).rejects.toThrow(
    `${name}' cannot be de-identified: ${why}. Give --deidentify=names`,
  );
});

test('MetaImage is recognised by its name if it begins with an unspecific key', async () => {
  const bytes = canary.metaImage(word);
  const start = `ObjectType = Image\nNDims = 3\nComment = ${word}\n`;
  const late = Buffer.from(
    bytes.toString('latin1').replace(start, '').replace('DimSize', `${start}DimSize`),
    'latin1',
  );
  for (const name of ['x.mha', 'X.MHD']) {
    const [sent = Buffer.alloc(0)] = (await cleaned({ [name]: late }, [name])).values();
    expect(sent.toString('latin1')).toMatch(
      /^BinaryData = True\n.*\nObjectType = Image\nNDims = 3\nDimSize = 4 3 2\n/s,
    );
    expect(sent.includes(word)).toBe(false);
  }
});

test('Voxels in several files that are not one slice each are refused', async () => {
  await using directory = await temporary();
  const nrrd =
    'NRRD0004\ntype: short\ndimension: 3\nsizes: 4 3 2\nencoding: raw\nendian: little\ndata file: LIST\n';
  for (const [name, text] of [
    ['x.mhd', canary.metaText(word, 'LIST')],
    ['x.nhdr', nrrd],
  ] as const)
    for (const [names, isTaken] of [
      [['a.raw', 'b.raw'], true],
      [['a.raw', 'b.raw', 'c.raw'], false],
    ] as const) {
      await plant(directory.path, { [name]: `${text}${names.join('\n')}\n` });
      const leave = () => cleanedVolume(path.join(directory.path, name), path.basename);
      if (isTaken) expect(leave().kept.length).toBeGreaterThan(3);
      else expect(leave).toThrow('it has its voxels in several files that are not one slice each');
    }
});

test('A volume in one file keeps the fields that a model needs, and loses the others', async () => {
  await using directory = await temporary();
  const told = async (name: string, bytes: Buffer) => {
    await plant(directory.path, { [name]: bytes });
    const { kept, removed } = cleanedVolume(path.join(directory.path, name), () => null);
    return [kept.length, kept.at(-1), removed];
  };
  const [behind, gzip] = ['bytes behind the voxels', 'the header of gzip'];
  const texts = ['descrip', 'aux_file', 'intent_name'];
  expect(await told('a.nii', canary.nifti(word))).toEqual([
    ...[18, 'srow_x, srow_y, srow_z', ['data_type', 'db_name', ...texts, 'extensions', behind]],
  ]);
  const second = canary.gzipWithWords(canary.nifti(word, { second: true }), word);
  expect(await told('b.nii.gz', second)).toEqual([
    ...[18, 'srow_x, srow_y, srow_z', [...texts, 'unused_str', 'extensions', gzip]],
  ]);
  const fields = ['content', 'sample units', 'patient', `${word}key`, 'comments'];
  expect(await told('a.nrrd', canary.nrrd(word))).toEqual([9, 'space origin', [...fields, behind]]);
  expect(await told('b.nrrd', canary.nrrd(word, true))).toEqual([9, 'space origin', [...fields, gzip]]);
  const tags = Array.from({ length: 100 }, (_, at) => `Segment${at}_Tags`);
  const long = `${tags.map((tag) => `${tag}:=${'x'.repeat(700)}\n`).join('')}patient:=`;
  const large = Buffer.from(canary.nrrd(word).toString('latin1').replace('patient:=', long), 'latin1');
  const removed = fields.toSpliced(2, 0, ...tags);
  expect(await told('c.nrrd', large)).toEqual([9, 'space origin', [...removed, behind]]);
  expect(await told('a.mha', canary.metaImage(word, true))).toEqual([
    ...[11, 'ElementType', ['Comment', 'Name', `${word}Key`, 'Modality']],
  ]);
  expect(await told('a.mgh', canary.freeSurfer(word))).toEqual([
    ...[4, 'acquisition parameters', ['unused bytes of the header', behind]],
  ]);
});

describe('unsupported content', () => {
  const analyze = canary.niftiHeader(word, { isPair: true });
  analyze.fill(0, 344, 348);
  test.for([
    ['a picture', { 'x.png': Buffer.from('\u0089PNG\r\n\u001a\n', 'latin1') }, 'x.png'],
    ['a text', { 'x.json': '{}' }, 'x.json'],
    ['MINC', { 'x.mnc': 'CDF\u0001' }, 'x.mnc'],
    ['raw voxels without a header', { 'x.raw': canary.voxels }, 'x.raw'],
    ['ANALYZE', { 'x.hdr': analyze, 'x.img': canary.voxels }, 'x.hdr'],
    [
      'NRRD that is packed as a whole',
      { 'x.nrrd.gz': canary.gzipWithWords(canary.nrrd(word), word) },
      'x.nrrd.gz',
    ],
    ['NRRD as text', { 'x.nrrd': `${canary.nrrdText(word, 'ascii')}1 2 3` }, 'x.nrrd'],
  ] as const)('Unsupported content is refused: %s', async ([, files, name]) => {
    await expect(cleaned(files, [name])).rejects.toThrow(
      /x\.[\w.]+' cannot be de-identified: .*\. Give --deidentify=names to send it as it is under a neutral name, or --no-deidentify to send it as it is$/,
    );
  });

  test('A header that names a file that is not sent is refused, and so is gzip with an endless header', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'x.mhd': canary.metaText(word, 'y.raw') });
    const header = path.join(directory.path, 'x.mhd');
    expect(() => cleanedVolume(header, () => null)).toThrow("it names 'y.raw', which is not sent with it");
    const endless = Buffer.concat([Buffer.from([0x1f, 0x8b, 8, 8]), Buffer.alloc(40, 'a')]);
    await expect(cleaned({ 'x.nii.gz': endless }, ['x.nii.gz'], 'names')).rejects.toThrow(
      "x.nii.gz' is damaged or cut short: its packed data cannot be unpacked",
    );
  });

  test('Unsupported content is sent under a neutral name if that is enough, and gzip loses the name inside it', async () => {
    const packed = canary.gzipWithWords(canary.nifti('inside'), word);
    const files = { [`${word}.png`]: 'x', [`${word}2.nii.gz`]: packed };
    const sent = await cleaned(files, Object.keys(files), 'names');
    expect([...sent.keys()].sort()).toEqual(['case-0001.png', 'case-0002.nii.gz']);
    expect(gunzipSync(sent.get('case-0002.nii.gz') ?? Buffer.alloc(0))).toEqual(canary.nifti('inside'));
    expect(sent.get('case-0002.nii.gz')?.toString('latin1')).not.toContain(word);
  });
});
