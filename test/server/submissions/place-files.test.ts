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
import { checkClaim, checkIdentities, UploadTurns } from '../../../src/server/submissions/index.js';
import { placeFiles } from '../../../src/server/submissions/place-files.js';
import type { ReceivedFile } from '../../../src/server/submissions/read-form.js';
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
  return { field: 'inputs', name, path: file, upload: { file, length, extracts: null } };
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
  const placed = await placeFiles(
    groups,
    inputDirectory(),
    { ...generous, ...limits },
    {
      onExtract: (bytes) => told.push(bytes),
      makeRoom,
      turns: new UploadTurns(),
      mayPostpone: true,
    },
  );
  const short = (file: string) => path.relative(root, file);
  return {
    files: Object.fromEntries(
      Object.entries(placed.files).map(([name, each]) => [name, each.map((group) => group.map(short))]),
    ),
    linked: placed.linked.map(({ file, directory }) => [short(file), directory && short(directory)]),
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
    linked: [],
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
  expect(placed).toEqual({ files: { dataset: [['Input/dataset']] }, linked: [], extracted: 1 });
  expect(readFileSync(path.join(root, 'Input/dataset/a.nii'), 'utf8')).toBe('a');
});

test('an upload stays: a small one is copied, a large one linked until the app runs', async () => {
  const least = 1 << 20;
  const placed = await place('infer', { inputs: [[kept('small', least - 1), kept('large', least)]] });
  expect(placed).toEqual({
    files: { inputs: [['Input/inputs/g0/small', 'Input/inputs/g0/large']] },
    linked: [['Input/inputs/g0/large', null]],
    extracted: 0,
  });
  const isSame = (name: string) =>
    statSync(path.join(root, 'uploads', name)).ino === statSync(path.join(root, 'Input/inputs/g0', name)).ino;
  expect([isSame('small'), isSame('large'), statSync(path.join(root, 'Input/inputs/g0/small')).size]).toEqual(
    [false, true, least - 1],
  );
});

test('an archive of an upload stays, and is known to extract', async () => {
  const file = kept('s.konfaidir.zip', 1);
  writeFileSync(file.path, zipOf({ 'a/b': 'x' }));
  await place('infer', { inputs: [[file]] });
  expect(existsSync(file.path)).toBe(true);
  expect(file.upload?.extracts).toEqual({ entries: 2, bytes: 2 * 4096, content: 1 });
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

test('the archives of a submission have two hundred thousand files together at most', async () => {
  const known = (name: string, entries: number): ReceivedFile => {
    const file = kept(`${name}.konfaidir.zip`, 1 << 20);
    if (file.upload) file.upload.extracts = { entries, bytes: 1, content: 1 };
    return file;
  };
  const ten = Array.from({ length: 10 }, (_, at) => known(`${at}`, 20_000));
  expect((await place('infer', { inputs: [ten] })).linked).toHaveLength(10);
  rmSync(inputDirectory(), { recursive: true });
  // What is more is not postponed, and no archive.
  await expect(place('infer', { inputs: [[...ten, known('one', 1)]] })).rejects.toMatchObject({
    code: 'badRequest',
    message: expect.stringMatching(/^Archive 'one\.konfaidir\.zip' cannot be extracted: /),
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
  expect([rooms, told]).toEqual([0, []]);
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

test('what tells who somebody is, or cannot be read, is refused by its name as it was sent', async () => {
  const header = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM')]);
  const input = inputDirectory();
  await plant(input, { 'inputs/g0/a.nii': 'x', 'inputs/g0/s/1.dcm': 'no DICOM' });
  symlinkSync('/etc/passwd', path.join(input, 'link'));
  await checkIdentities(input);
  const refusal = (name: string) =>
    `File '${name}' begins as DICOM and cannot be read to its end, so that nobody knows what it tells; this server takes de-identified scans alone: `;
  const broken = Buffer.concat([header, Buffer.from([0x08, 0, 0x05, 0, 0x43, 0x53, 0xff, 0x7f, 0x41])]);
  await plant(input, { 'inputs/g0/s/g1/2.dcm': broken });
  await expect(checkIdentities(input)).rejects.toMatchObject({
    code: 'notDeidentified',
    message: expect.stringContaining(refusal('s/g1/2.dcm')),
  });
});

test('only a form that claims to be de-identified may send its files', () => {
  expect(() => checkClaim(true)).not.toThrow();
  expect(() => checkClaim(false)).toThrow(
    "This server takes de-identified scans alone: send it with remote-app's --deidentify, or remove what tells who somebody is and send the field 'deidentified' before the files",
  );
});
