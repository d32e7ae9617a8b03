import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { operationOf } from '../../../src/contract/index.js';
import { UploadTurns } from '../../../src/server/submissions/index.js';
import { placeFiles } from '../../../src/server/submissions/place-files.js';
import type { WholeUpload } from '../../../src/server/submissions/read-form.js';
import { temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';

const field = operationOf('infer').fields.find(({ name }) => name === 'inputs');
if (!field) throw new Error('infer has no inputs');
const limits = { maxFileSize: 1 << 30, maxUploadSize: 1 << 30, maxExtractedSize: 1 << 30, advice: '; ask' };
const content = { '1.dcm': randomBytes(900_000).toString('hex'), 'sub/2.dcm': 'two' };

let own: Awaited<ReturnType<typeof temporary>>;
let root: string;
let upload: WholeUpload;
let counted: number[];

afterEach(() => own[Symbol.asyncDispose]());

beforeEach(async () => {
  own = await temporary();
  root = own.path;
  counted = [];
  const file = path.join(root, 'upload');
  writeFileSync(file, zipOf(content));
  upload = { file, length: statSync(file).size, extracts: null };
});

/** Places the upload as the input of a job. */
async function place(
  name: string,
  { mayPostpone = true, ...bounds }: Partial<typeof limits & { mayPostpone: boolean }> = {},
) {
  const job = path.join(root, name);
  mkdirSync(job);
  const file = { field: 'inputs', name: 'ct.konfaidir.zip', path: upload.file, upload };
  const placed = await placeFiles(
    new Map([[field as NonNullable<typeof field>, [[file]]]]),
    path.join(job, 'Input'),
    { ...limits, ...bounds },
    {
      onExtract: (bytes) => counted.push(bytes),
      makeRoom: async () => false,
      turns: new UploadTurns(),
      mayPostpone,
    },
  );
  return { ...placed, job, directory: path.join(job, 'Input/inputs/g0/ct') };
}

const bytes = content['1.dcm'].length + 3;

test('an archive is extracted at once the first time, and waits as a link the next', async () => {
  const first = await place('first');
  expect(first.linked).toEqual([]);
  expect(readFileSync(path.join(first.directory, 'sub/2.dcm'), 'utf8')).toBe('two');
  expect(upload.extracts).toMatchObject({ entries: 3, content: bytes });

  counted = [];
  const next = await place('next');
  const link = path.join(next.job, 'Input/.archives/0');
  expect(next).toMatchObject({
    files: { inputs: [[next.directory]] },
    linked: [{ file: link, directory: next.directory }],
    extracted: bytes,
  });
  expect(counted).toEqual([bytes]);
  expect(existsSync(next.directory)).toBe(false);
  expect(statSync(link).ino).toBe(statSync(upload.file).ino);
});

test('it is extracted at once where its files are looked at before the job is accepted', async () => {
  await place('first');
  const { linked, directory } = await place('next', { mayPostpone: false });
  expect(linked).toEqual([]);
  expect(readdirSync(directory).sort()).toEqual(['1.dcm', 'sub']);
});

test('limits refuse it as they would refuse one that comes for the first time', async () => {
  await place('first');
  await expect(place('next', { maxExtractedSize: bytes })).rejects.toMatchObject({
    code: 'uploadTooLarge',
    message: expect.stringMatching(/it extracts to \d+ bytes, .*more than the limit of 1800003; ask$/),
  });
  expect(existsSync(path.join(root, 'next/Input/.archives'))).toBe(false);
});

test('a small archive is extracted at once: that takes no longer than a link of which notes are kept', async () => {
  writeFileSync(upload.file, zipOf({ '1.dcm': 'one' }));
  upload = { ...upload, length: statSync(upload.file).size };
  await place('first');
  expect((await place('next')).linked).toEqual([]);
});
