import { linkSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { openVolume, readVolume, writeNifti } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import {
  appendLine,
  editJsonFile,
  firstBytes,
  hashFile,
  lastLines,
  readOwnFile,
  readReserve,
  readSmallFile,
  reserveJsonFile,
  syncDirectory,
  syncDirectorySync,
  syncFile,
  syncTree,
  writeJsonFile,
  writeReservedJson,
} from '../../src/files/index.js';
import { JobDirectory } from '../../src/server/jobs/job-directory.js';
import { straight } from '../support/affine.js';
import { openBelow } from '../support/open-files.js';
import { plant, temporary } from '../support/temporary.js';

const volume = {
  size: [2, 2, 2],
  affine: straight(),
  data: new Uint8Array(8),
} as const;

type Use = (at: (name: string) => string) => unknown;

const used: [string, Use][] = [
  ['the first bytes of a file', (at) => firstBytes(at('a'), 4)],
  ['the first bytes of a directory', (at) => firstBytes(at('directory'), 4)],
  ['a small file', (at) => readSmallFile(at('a'))],
  ['a file that is hashed', (at) => hashFile(at('a'))],
  ['a file of a job', (at) => readOwnFile(at('a'), 100)],
  ['one that is missing', (at) => readOwnFile(at('missing'), 100)],
  ['a line that is appended', (at) => appendLine(at('lines'), 'x', { isKept: true })],
  ['the last lines', (at) => lastLines(at('a'), 10)],
  ['a synced file', (at) => syncFile(at('a'))],
  ['a synced directory', (at) => syncDirectory(at('directory'))],
  ['one that is waited for', (at) => syncDirectorySync(at('directory'))],
  ['a synced tree', (at) => syncTree(at(''))],
  ['a JSON file', (at) => writeJsonFile(at('b.json'), {})],
  ['an edited one', (at) => editJsonFile(at('b.json'), () => ({}), { keepsAccess: false })],
  ['space that is reserved', (at) => reserveJsonFile(at('r.json'), 100)],
  [
    'and used',
    (at) => {
      reserveJsonFile(at('r.json'), 100, 'x');
      expect(readReserve(at('r.json'), 100)?.trimEnd()).toBe('x');
      writeReservedJson(at('r.json'), { a: 1 });
      expect(JSON.parse(readFileSync(at('r.json'), 'utf8'))).toEqual({ a: 1 });
      expect(readReserve(at('r.json'), 100)).toBeUndefined();
    },
  ],
  ['a volume that is written', (at) => writeNifti(at('v.nii.gz'), volume)],
  ['a volume that is read', (at) => readVolume(at('scan.nii'))],
  ['the header of one', (at) => openVolume(at('scan.nii'))],
  ['a line in the log of a job', (at) => new JobDirectory('0123456789ab', at('directory')).log('x')],
];

/** What cannot be read or written. */
const refused: [string, Use][] = [
  ['one that is too large', (at) => readSmallFile(at('a'), 2)],
  ['a directory in its place', (at) => readSmallFile(at('directory'))],
  ['one whose reading is given up', (at) => hashFile(at('a'), AbortSignal.abort())],
  ['one that is too long', (at) => readOwnFile(at('a'), 2)],
  ['one with a second name', (at) => readOwnFile(at('linked'), 100, true)],
  ['a directory of a job in its place', (at) => readOwnFile(at('directory'), 100)],
  ['a line that cannot be', (at) => appendLine(at('directory'), 'x')],
  ['those of a directory', (at) => lastLines(at('directory'), 10)],
  [
    'an edit that fails',
    (at) =>
      editJsonFile(
        at('b.json'),
        () => {
          throw new Error('no');
        },
        { keepsAccess: false },
      ),
  ],
  ['one that is cut off', (at) => readVolume(at('cut.nii'))],
  ['what is no volume', (at) => readVolume(at('a'))],
];

test.each([
  ...used.map((each) => [...each, 'done'] as const),
  ...refused.map((each) => [...each, 'failed'] as const),
])('No descriptor is left open: %s', async (_, use, outcome) => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, { a: 'text\n', linked: 'x', 'b.json': '{}', 'directory/b': 'x' });
  linkSync(at('linked'), at('second'));
  await writeNifti(at('scan.nii'), volume);
  writeFileSync(at('cut.nii'), readFileSync(at('scan.nii')).subarray(0, -2));
  const ended = Promise.resolve().then(() => use(at));
  expect(
    await ended.then(
      () => 'done',
      () => 'failed',
    ),
  ).toBe(outcome);
  expect(openBelow(root.path)).toEqual([]);
});
