import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { hasLinks, noteLinks, ownLinks } from '../../../src/server/jobs/linked-input.js';
import { temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';

const never = () => false;
const files = { '1.dcm': 'one', 'sub/2.dcm': 'two' };

let job: JobDirectory;
let upload: string;

let place: Awaited<ReturnType<typeof temporary>>;

afterEach(() => place[Symbol.asyncDispose]());

beforeEach(async () => {
  place = await temporary();
  const { path: root } = place;
  job = new JobDirectory('0123456789abcdef', path.join(root, 'job'));
  upload = path.join(root, 'upload');
  mkdirSync(job.path);
  job.create();
});

/** A link to an upload of this content, in `Input`. */
function linked(content: string | Uint8Array, name: string): string {
  writeFileSync(upload, content);
  const link = path.join(job.input, name);
  mkdirSync(path.dirname(link), { recursive: true });
  linkSync(upload, link);
  return link;
}

const contents = (directory: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .filter((name) => statSync(path.join(directory, name)).isFile())
      .map((name) => [name, readFileSync(path.join(directory, name), 'utf8')]),
  );

/** An archive that waits, and what it is to become. */
function waiting(): { readonly file: string; readonly directory: string } {
  const file = linked(zipOf(files), '.archives/0');
  const directory = path.join(job.input, 'inputs/g0/series');
  noteLinks(job, [{ file, directory }]);
  return { file, directory };
}

test('an archive becomes the directory that it contains, and nothing of it stays', async () => {
  const { directory } = waiting();
  expect(hasLinks(job)).toBe(true);
  await ownLinks(job, never);
  expect(contents(job.input)).toEqual({
    'inputs/g0/series/1.dcm': 'one',
    'inputs/g0/series/sub/2.dcm': 'two',
  });
  expect(readdirSync(job.input)).toEqual(['inputs']);
  expect(hasLinks(job)).toBe(false);
  expect(statSync(upload).nlink).toBe(1);
  expect(statSync(path.join(directory, '1.dcm')).mode & 0o077).toBe(0);
});

test('what an interrupted try has extracted is replaced', async () => {
  const { directory } = waiting();
  mkdirSync(path.join(directory, 'torn'), { recursive: true });
  writeFileSync(path.join(directory, '1.dcm'), 'o');
  await ownLinks(job, never);
  expect(contents(directory)).toEqual(files);
});

test('a directory stays whose archive is gone, since it was whole by then', async () => {
  const { directory } = waiting();
  await ownLinks(job, never);
  noteLinks(job, [{ file: path.join(job.input, '.archives/0'), directory }]);
  await ownLinks(job, never);
  expect(contents(directory)).toEqual(files);
  expect(hasLinks(job)).toBe(false);
});

test('a job that is given up while an archive is extracted keeps its list', async () => {
  const { file } = waiting();
  let asked = 0;
  await ownLinks(job, () => ++asked > 1);
  expect(asked).toBeLessThan(4);
  expect(hasLinks(job)).toBe(true);
  expect(existsSync(file)).toBe(true);
});

test('a full disk, or a damaged archive, is an error, after which it can be done again', async () => {
  const { file, directory } = waiting();
  writeFileSync(file, 'no archive');
  await expect(ownLinks(job, never)).rejects.toThrow();
  expect(hasLinks(job)).toBe(true);
  writeFileSync(file, zipOf(files));
  await ownLinks(job, never);
  expect(contents(directory)).toEqual(files);
});

test('the list of an earlier version is read, and files become the own of a job', async () => {
  const link = linked('of the upload', 'inputs/g0/ct.nii');
  writeFileSync(path.join(job.path, 'links.json'), '["Input/inputs/g0/ct.nii"]');
  await ownLinks(job, never);
  writeFileSync(link, 'changed', { flag: 'r+' });
  expect(readFileSync(upload, 'utf8')).toBe('of the upload');
  expect(readFileSync(link, 'utf8')).toBe('changedupload');
  expect(readdirSync(job.path).sort()).toEqual(['Input', 'Output', 'Workspace']);
});
