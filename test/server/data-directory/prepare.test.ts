import {
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import {
  checkFileSystem,
  lookAtDataDirectory,
  ownDirectory,
  prepareDataDirectory,
  readOrSetAside,
  setAside,
  unwritable,
} from '../../../src/server/data-directory/prepare.js';
import { lacks } from '../../support/needs.mjs';
import { openBelow } from '../../support/open-files.js';
import { smallDisk } from '../../support/small-disk.js';
import { plant, temporary } from '../../support/temporary.js';

let root: Awaited<ReturnType<typeof temporary>>;
let data = '';
const told: string[] = [];
const report = (problem: string, cause: unknown) => told.push(`${problem}: ${cause}`);
beforeEach(async () => {
  told.length = 0;
  root = await temporary();
  data = path.join(root.path, 'data');
});
afterEach(() => root[Symbol.asyncDispose]());

const modeOf = (file: string) => statSync(file).mode & 0o777;
const stamp = /\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/;
/** What was set aside, without its times. */
const aside = () =>
  readdirSync(path.join(data, 'set-aside'))
    .map((name) => name.replace(stamp, ''))
    .sort();

test('A data directory is made private even if it already existed, and is shown without links', () => {
  mkdirSync(data, { mode: 0o755 });
  const link = path.join(root.path, 'link');
  symlinkSync(data, link);
  expect([prepareDataDirectory(link), modeOf(data)]).toEqual([data, 0o700]);
  const deep = path.join(root.path, 'a/b/data');
  expect([prepareDataDirectory(deep), modeOf(deep)]).toEqual([deep, 0o700]);
  writeFileSync(path.join(root.path, 'file'), '');
  expect(() => prepareDataDirectory(path.join(root.path, 'file'))).toThrow(
    `The data directory ${root.path}/file cannot be written to: `,
  );
});

test('An entry in the place of a server directory is set aside unchanged, but a link in the place of the jobs is followed', async () => {
  await plant(data, { incoming: 'a text', 'elsewhere/': '' });
  symlinkSync('../elsewhere', path.join(data, 'trash'));
  symlinkSync('elsewhere', path.join(data, 'jobs'));
  const made = (['incoming', 'trash', 'jobs', 'uploads'] as const).map((name) =>
    ownDirectory(data, name, report),
  );
  expect(made.map((each) => path.relative(data, each))).toEqual(['incoming', 'trash', 'jobs', 'uploads']);
  expect(made.map(modeOf).filter((mode) => mode !== 0o700)).toHaveLength(1);
  expect(aside()).toEqual(['incoming', 'trash']);
  const [kept = ''] = readdirSync(path.join(data, 'set-aside'));
  expect(readFileSync(path.join(data, 'set-aside', kept), 'utf8')).toBe('a text');
  expect(told).toEqual([
    `Set aside 'incoming' as ${path.join(data, 'set-aside', kept)}: the server needs a directory called incoming`,
    expect.stringMatching(/^Set aside 'trash' as .*: the server needs a directory called trash$/),
  ]);
});

test('An entry that cannot be set aside stays in place, which is reported; a missing entry is not', async () => {
  await plant(data, { 'set-aside': '', jobs: 'x' });
  setAside(data, path.join(data, 'jobs'), 'it is not a job', report);
  expect(told).toEqual([
    `Left 'jobs' where it is, in ${data}: it is not a job; file already exists (EEXIST)`,
  ]);
  expect(readFileSync(path.join(data, 'jobs'), 'utf8')).toBe('x');
  readOrSetAside(data, path.join(data, 'usage'), report, () => readFileSync(path.join(data, 'usage')));
  expect(told).toHaveLength(1);
});

test.for([
  ['ENOSPC', 'its disk is full (ENOSPC): free some space'],
  ['EDQUOT', 'the disk quota of its user is used up (EDQUOT): free some of it, or raise it'],
  [
    'EROFS',
    'its file system is mounted read-only (EROFS): mount it writable, choose another directory, or add it to ReadWritePaths of the systemd unit',
  ],
  ['EMFILE', 'this process has as many files open as it may (EMFILE): raise its limit (ulimit -n)'],
  ['ENFILE', 'this machine has as many files open as it can (ENFILE): end some programs'],
  ['EFBIG', 'this process may write no file of that size (EFBIG): raise its limit (ulimit -f)'],
  ['EIO', 'It failed'],
] as const)(
  'A data directory that cannot be written to because of %s is reported with advice',
  ([code, why]) => {
    const cause = Object.assign(new Error('It failed'), { code });
    expect(unwritable(root.path, cause).message).toBe(
      `The data directory ${root.path} cannot be written to: ${why}`,
    );
  },
);

test('A check creates nothing, leaves nothing behind, and reports whether the directory exists', async () => {
  expect(lookAtDataDirectory(path.join(data, 'deep/er'))).toBe(false);
  expect(readdirSync(root.path)).toEqual([]);
  await plant(data, { 'jobs/': '', incoming: 'a start sets it aside' });
  expect(lookAtDataDirectory(data)).toBe(true);
  checkFileSystem(data);
  expect(readdirSync(data).sort()).toEqual(['incoming', 'jobs']);
  expect(openBelow(data)).toEqual([]);
  symlinkSync(path.join(root.path, 'nowhere'), path.join(root.path, 'link'));
  expect(() => lookAtDataDirectory(path.join(root.path, 'link'))).toThrow('no such file or directory');
});

test.skipIf(lacks('root'))('A check finds directories of other users, and unwritable ones', async () => {
  await plant(data, { 'jobs/': '' });
  const asUser = vi.spyOn(process, 'geteuid').mockReturnValue(4321);
  try {
    expect(() => lookAtDataDirectory(data)).toThrow(
      `The data directory ${data} cannot be written to: it belongs to another user`,
    );
    chownSync(data, 4321, 0);
    expect(lookAtDataDirectory(data)).toBe(true);
  } finally {
    asUser.mockRestore();
  }
});

const disk = smallDisk(1);

test.skipIf(disk === null)('A check finds a link that leads the jobs to another file system', async () => {
  await plant(data, { trash: '' });
  symlinkSync(disk ?? '', path.join(data, 'jobs'));
  const sentence = `${data}/jobs is on another file system than ${data}; mount the data directory as one`;
  expect(() => lookAtDataDirectory(data)).toThrow(sentence);
});

test('A file system is not refused for a program that is missing', async () => {
  vi.stubEnv('PATH', '/nowhere');
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(() => checkFileSystem(root.path)).not.toThrow();
  expect(readdirSync(root.path)).toEqual([]);
});
