import { linkSync, rmSync, statfsSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  DiskLimit,
  outputFault,
  resultSize,
  treeSize,
  usualDiskPerJob,
} from '../../../src/server/jobs/disk-use.js';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { temporary } from '../../support/temporary.js';
import { TestClock } from '../../support/test-clock.js';

const mebibyte = 2 ** 20;
const megabytes = (count: number) => Buffer.alloc(count * mebibyte, 1);

let directory: JobDirectory;

beforeEach(async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  directory = new JobDirectory('0123456789ab', root.path);
  directory.makeDirectories();
});

const fill = (part: 'input' | 'output' | 'workspace', name: string, count: number) =>
  writeFileSync(path.join(directory[part], name), megabytes(count));

const limitOf = (max: number, removed = 0, clock = new TestClock()) =>
  new DiskLimit(directory, { max: max * mebibyte, removedButOpen: async () => removed * mebibyte, clock });

test('A job may write up to its limit, and its inputs do not count', async () => {
  fill('input', 'ct.nii', 3);
  const limit = limitOf(4.5);
  fill('output', 'mask.nii', 2);
  fill('workspace', 'half.nii', 2);
  expect(await limit.look()).toBeNull();
  fill('input', 'more.nii', 1);
  expect(await limit.look()).toMatch(
    /^it wrote 5\.\d MiB \(Input 1\.0 MiB, Output 2\.0 MiB, Workspace 2\.0 MiB\), and a job may write 4\.5 MiB \(--disk-per-job of the server\)$/,
  );
});

test('Removed files that are still open count, and the message leaves out empty parts', async () => {
  for (const part of [directory.input, directory.output, directory.workspace])
    rmSync(part, { recursive: true });
  expect(await limitOf(2, 2).look()).toBeNull();
  expect(await limitOf(2, 3).look()).toBe(
    'it wrote 3.0 MiB (removed files that are still open 3.0 MiB), and a job may write 2.0 MiB (--disk-per-job of the server)',
  );
});

test('A file with several names counts once on the disk, and once for each name in a result', async () => {
  fill('output', 'a', 2);
  linkSync(path.join(directory.output, 'a'), path.join(directory.workspace, 'b'));
  symlinkSync(path.join(directory.output, 'a'), path.join(directory.output, 'link'));
  const limit = limitOf(3);
  expect(await limit.look()).toBeNull();
  expect(await limit.lookAtResult()).toBeNull();
  linkSync(path.join(directory.output, 'a'), path.join(directory.output, 'c'));
  expect(await limit.look()).toBeNull();
  expect(await limit.lookAtResult()).toBe(
    'its result has 4.0 MiB to pack, and a job may write 3.0 MiB (--disk-per-job of the server)',
  );
});

test('A job is no longer measured once it has ended', async () => {
  const clock = new TestClock();
  const limit = limitOf(1, 0, clock);
  const exceeded = limit.exceeded();
  await expect.poll(() => clock.waiting).toEqual([1000]);
  fill('output', 'mask.nii', 2);
  limit.close();
  clock.pass(1);
  expect(await exceeded).toBeNull();
});

test('The size of a result is that of its archive, or of its files where something else is in its place', async () => {
  fill('output', 'mask.nii', 2);
  const ofFiles = await treeSize(directory.output);
  expect(ofFiles).toBeGreaterThanOrEqual(2 * mebibyte);
  expect(await resultSize(directory)).toBe(ofFiles);
  symlinkSync('/etc/hostname', directory.result);
  expect(await resultSize(directory)).toBe(ofFiles);
  rmSync(directory.result);
  writeFileSync(directory.result, '');
  truncateSync(directory.result, 12_345);
  expect(await resultSize(directory)).toBe(12_345);
});

test('An output directory that an app has removed or replaced does not count as a result', async () => {
  const { output } = directory;
  expect(outputFault(output)).toBeNull();
  rmSync(output, { recursive: true });
  expect(outputFault(output)).toBe('The app removed its output directory: there is no result');
  symlinkSync('/etc', output);
  expect(outputFault(output)).toBe(
    'The app replaced its output directory, which is not followed: there is no result',
  );
});

test('A job may write a tenth of the disk, and ten gibibytes on a small one', () => {
  const { blocks, bsize } = statfsSync(directory.path);
  expect(usualDiskPerJob(directory.path)).toBe(Math.max(10 * 2 ** 30, (blocks * bsize) / 10));
  expect(usualDiskPerJob('/proc')).toBe(10 * 2 ** 30);
});
