import { existsSync, mkdtempSync, rmSync, statfsSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { areUntouched, stampToRecord } from '../../../src/client/case/index.js';
import { plant, temporary } from '../../support/temporary.js';

/** Whether the file system of temporary directories is one whose times are trusted. */
const isMaintained = (directory: string): boolean =>
  [0xef53, 0x58465342, 0x9123683e].includes(statfsSync(directory).type);

const later = (minutes: number) => vi.setSystemTime(Date.now() + minutes * 60_000);

test('Minutes after they were written, files are trusted by their times until they change, if the file system maintains these times', async () => {
  await using root = await temporary();
  await plant(root.path, { 'a.nii': 'abc', 'b.nii': 'x' });
  const files = ['a.nii', 'b.nii'].map((name) => path.join(root.path, name));
  // It may be written again within the same tick.
  expect(stampToRecord(files)).toBeNull();
  vi.useFakeTimers({ toFake: ['Date'] });
  later(1);
  const stamp = stampToRecord(files);
  expect([areUntouched(files, stamp), areUntouched(files, null)]).toEqual([false, false]);
  later(3);
  expect(areUntouched(files, stamp)).toBe(isMaintained(root.path));
  expect([areUntouched([...files].reverse(), stamp), areUntouched(['/none'], stamp)]).toEqual([false, false]);
  // The same length and the times of the first content.
  const [file = ''] = files;
  writeFileSync(file, 'abd');
  utimesSync(file, 1e9, 1e9);
  expect(areUntouched(files, stamp)).toBe(false);
  vi.useRealTimers();
});

test.skipIf(!existsSync('/dev/shm'))('Files in a tmpfs are not trusted by their times', async () => {
  const root = mkdtempSync('/dev/shm/remote-app-test-');
  onTestFinished(() => rmSync(root, { recursive: true }));
  const file = path.join(root, 'a.nii');
  writeFileSync(file, 'abc');
  vi.useFakeTimers({ toFake: ['Date'] });
  later(10);
  const stamp = stampToRecord([file]);
  expect([typeof stamp, areUntouched([file], stamp)]).toEqual(['string', false]);
  vi.useRealTimers();
});
