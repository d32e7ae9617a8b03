import {
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type OperationName, operationOf } from '../../../src/contract/index.js';
import { Turns } from '../../../src/files/index.js';
import { checkClaim, checkIdentities } from '../../../src/server/submissions/index.js';
import { placeFiles } from '../../../src/server/submissions/place-files.js';
import type { ReceivedFile } from '../../../src/server/submissions/read-form.js';
import { DiskSpace } from '../../../src/server/uploads/index.js';
import { smallDisk } from '../../support/small-disk.js';
import { plant, temporary } from '../../support/temporary.js';
import { zip, zipOf } from '../../support/zip.mjs';

const generous = { maxFileSize: 1 << 30, maxUploadSize: 1 << 30, maxExtractedSize: 1 << 30, advice: '; ask' };

let own: Awaited<ReturnType<typeof temporary>>;
let root = '';
let told: number[] = [];
beforeEach(async () => {
  own = await temporary();
  root = own.path;
  told = [];
  await plant(root, { 'Incoming/': '', 'uploads/': '' });
});
afterEach(() => own[Symbol.asyncDispose]());

/** A file that came in the form. */
function received(name: string, content: string | Buffer): ReceivedFile {
  const file = path.join(root, 'Incoming', String(readdirSync(path.join(root, 'Incoming')).length));
  writeFileSync(file, content);
  return { field: 'inputs', name, path: file };
}

/** An upload that the submission names. */
function kept(name: string, length: number): ReceivedFile {
  const file = path.join(root, 'uploads', name);
  writeFileSync(file, 'x');
  truncateSync(file, length);
  return { field: 'inputs', name, path: file, isUpload: true };
}

const inputDirectory = () => path.join(root, 'Input');

async function place(
  operation: OperationName,
  byField: Readonly<Record<string, readonly (readonly ReceivedFile[])[]>>,
  { makeRoom = async () => false, ...limits } = {} as Partial<typeof generous> & {
    makeRoom?: () => Promise<boolean>;
  },
) {
  const { fields } = operationOf(operation);
  const groups = new Map(
    Object.entries(byField).map(([name, each]) => {
      const field = fields.find((one) => one.name === name);
      if (!field) throw new Error(`no field ${name}`);
      return [field, each];
    }),
  );
  const placed = await placeFiles(groups, inputDirectory(), {
    limits: { ...generous, ...limits },
    space: new DiskSpace(root, makeRoom).reservationFor('ana'),
    largeArchives: new Turns(1),
    onExtract: (bytes) => told.push(bytes),
  });
  const short = (file: string) => path.relative(root, file);
  return {
    files: Object.fromEntries(
      Object.entries(placed.files).map(([name, each]) => [name, each.map((group) => group.map(short))]),
    ),
    extracted: placed.extracted,
  };
}

test('files are moved to their groups under names of their own, and archives extracted beside them', async () => {
  const series = zipOf({ '1.dcm': 'one', 'sub/2.dcm': 'two' });
  const placed = await place('evaluate', {
    inputs: [
      [received('dir/ct.nii', 'a'), received('ct.nii', 'b'), received('C:\\mr.nii', 'c')],
      [received('s.konfaidir.zip', series), received('x/s', 'd'), received('s.konfaidir.zip', series)],
    ],
    gt: [[received('-rf', 'e')]],
    mask: [],
  });
  expect(placed).toEqual({
    files: {
      inputs: [
        ['Input/inputs/g0/ct.nii', 'Input/inputs/g0/ct_1.nii', 'Input/inputs/g0/mr.nii'],
        ['Input/inputs/g1/s', 'Input/inputs/g1/s_1', 'Input/inputs/g1/s_2'],
      ],
      gt: [['Input/gt/g0/-rf']],
    },
    extracted: 12,
  });
  const read = (name: string) => readFileSync(path.join(root, 'Input', name), 'utf8');
  expect([
    ...['inputs/g0/ct.nii', 'inputs/g0/ct_1.nii', 'inputs/g0/mr.nii', 'inputs/g1/s/1.dcm'].map(read),
    ...['inputs/g1/s_1', 'inputs/g1/s_2/sub/2.dcm', 'gt/g0/-rf'].map(read),
  ]).toEqual(['a', 'b', 'c', 'one', 'd', 'two', 'e']);
  expect([readdirSync(path.join(root, 'Incoming')), told]).toEqual([[], [6, 12]]);
  expect(statSync(path.join(root, 'Input/inputs/g0')).mode & 0o777).toBe(0o700);
});

test('a data set is extracted to the directory of its field', async () => {
  const placed = await place('fine_tune', {
    dataset: [[received('any.zip', zipOf({ 'a.nii': 'a' }))]],
  });
  expect(placed).toEqual({ files: { dataset: [['Input/dataset']] }, extracted: 1 });
  expect(readFileSync(path.join(root, 'Input/dataset/a.nii'), 'utf8')).toBe('a');
});

test('an upload stays where it is, and the job gets a copy or what it extracts to', async () => {
  const archive = kept('s.konfaidir.zip', 1);
  writeFileSync(archive.path, zipOf({ 'a/b': 'x' }));
  const large = kept('large', 1 << 20);
  const placed = await place('infer', { inputs: [[large, archive]] });
  expect(placed).toEqual({
    files: { inputs: [['Input/inputs/g0/large', 'Input/inputs/g0/s']] },
    extracted: 1,
  });
  const copy = statSync(path.join(inputDirectory(), 'inputs/g0/large'));
  expect([copy.size, copy.nlink, existsSync(large.path), existsSync(archive.path)]).toEqual([
    1 << 20,
    1,
    true,
    true,
  ]);
});

const text = (length: number) => ({ name: 'a', content: 'x'.repeat(length) });

test.for<[string, () => ReceivedFile[], object, { code: string; message: string }]>([
  [
    'a name',
    () => [received('a/..', 'x')],
    {},
    { code: 'invalidField', message: "Field 'inputs' has a file whose name cannot be used: 'a/..'" },
  ],
  [
    'no name',
    () => [received('.konfaidir.zip', 'x')],
    {},
    {
      code: 'invalidField',
      message: "Field 'inputs' has a file whose name cannot be used: '.konfaidir.zip'",
    },
  ],
  [
    'no archive',
    () => [received('a.konfaidir.zip', 'x')],
    {},
    { code: 'badRequest', message: "Archive 'a.konfaidir.zip' cannot be extracted: it is not a zip archive" },
  ],
  [
    'a large one',
    () => [received('a.konfaidir.zip', zip([text(5000)]))],
    { maxExtractedSize: 4999 },
    {
      code: 'uploadTooLarge',
      message:
        "Archive 'a.konfaidir.zip' cannot be extracted: it extracts to 5000 bytes, its directories among them, more than the limit of 4999; ask",
    },
  ],
  [
    'two that are too large together',
    () => [received('a.konfaidir.zip', zip([text(5000)])), received('b.konfaidir.zip', zip([text(5000)]))],
    { maxExtractedSize: 9999 },
    {
      code: 'uploadTooLarge',
      message:
        "Archive 'b.konfaidir.zip' cannot be extracted: it extracts to 5000 bytes, its directories among them, more than the limit of 4999; ask",
    },
  ],
])('%s that cannot be placed is refused', async ([, files, limits, refusal]) => {
  await expect(place('infer', { inputs: [files()] }, limits)).rejects.toMatchObject(refusal);
});

test('two archives may extract to exactly the limit together', async () => {
  const files = ['a', 'b'].map((name) => received(`${name}.konfaidir.zip`, zip([text(5000)])));
  expect(await place('infer', { inputs: [files] }, { maxExtractedSize: 10_000 })).toMatchObject({
    extracted: 10_000,
  });
});

test('room is made as long as that helps for what an archive extracts to', async () => {
  const { bavail, bsize } = statfsSync(root);
  const each = 0xfffffff0;
  const count = Math.ceil((bavail * bsize) / each) + 1;
  const large = Array.from({ length: count }, (_, at) => ({ name: `${at}`, content: 'x', statedSize: each }));
  let rooms = 2;
  const makeRoom = async () => {
    // What a try has left is gone before the next.
    writeFileSync(path.join(root, 'Input/inputs/g0/a'), '');
    rooms -= 1;
    return rooms > 0;
  };
  const limits = { maxExtractedSize: Number.MAX_SAFE_INTEGER, makeRoom };
  await expect(
    place('infer', { inputs: [[received('a.konfaidir.zip', zip(large))]] }, limits),
  ).rejects.toMatchObject({
    code: 'diskFull',
    message:
      "The server's disk has too little room for what archive 'a.konfaidir.zip' extracts to; try again later",
  });
  expect(rooms).toBe(0);
});

const disk = smallDisk(8);

test.skipIf(disk === null)(
  'what a try has extracted before the disk was full is gone before the next one',
  async () => {
    root = disk ?? '';
    await plant(root, { 'Incoming/': '', filler: Buffer.alloc(5.5 * 2 ** 20) });
    const makeRoom = async () => {
      rmSync(path.join(root, 'filler'));
      await plant(inputDirectory(), { 'inputs/g0/s/a': Buffer.alloc(5.5 * 2 ** 20) });
      return true;
    };
    const archive = received('s.konfaidir.zip', zipOf({ a: 'x'.repeat(1 << 20) }));
    expect(await place('infer', { inputs: [[archive]] }, { makeRoom })).toMatchObject({ extracted: 1 << 20 });
    expect(statSync(path.join(inputDirectory(), 'inputs/g0/s/a')).size).toBe(1 << 20);
  },
);

test('a DICOM file that cannot be read to its end is refused by the name that it was sent with', async () => {
  const header = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM')]);
  const input = inputDirectory();
  await plant(input, { 'inputs/g0/a.nii': 'x', 'inputs/g0/s/1.dcm': 'no DICOM' });
  symlinkSync('/etc/passwd', path.join(input, 'link'));
  await checkIdentities(input, null);
  const refusal = (name: string) =>
    `File '${name}' begins like DICOM but cannot be read to its end, so it may identify a person; this server only takes de-identified scans: `;
  const broken = Buffer.concat([header, Buffer.from([0x08, 0, 0x05, 0, 0x43, 0x53, 0xff, 0x7f, 0x41])]);
  await plant(input, { 'inputs/g0/s/g1/2.dcm': broken });
  await expect(checkIdentities(input, null)).rejects.toMatchObject({
    code: 'notDeidentified',
    message: expect.stringContaining(refusal('s/g1/2.dcm')),
  });
});

test('only a form that claims to be de-identified may send its files', () => {
  expect(() => checkClaim(true)).not.toThrow();
  expect(() => checkClaim(false)).toThrow(
    "This server only takes de-identified scans: send it with remote-app's --deidentify, or remove what identifies a person and send the field 'deidentified' before the files",
  );
});
