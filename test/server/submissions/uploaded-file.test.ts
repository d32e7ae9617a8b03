import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { operationOf, partSizeHeader } from '../../../src/contract/index.js';
import { DiskWatch, noSpace, withSpace } from '../../../src/server/submissions/disk-space.js';
import { FormReceiver } from '../../../src/server/submissions/form-receiver.js';
import { UploadQuota, UploadTurns } from '../../../src/server/submissions/limits.js';
import { EarlyChecks } from '../../../src/server/submissions/read-form.js';
import { dropWritten, SyncBehind, UploadedFile } from '../../../src/server/submissions/uploaded-file.js';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';

/** A disk watch that notes what is written. */
class NotedDisk extends DiskWatch {
  readonly wholes: number[] = [];
  readonly parts: number[] = [];
  override wroteFile(bytes: number): void {
    this.wholes.push(bytes);
  }
  override async wrote(bytes: number): Promise<void> {
    this.parts.push(bytes);
  }
}

test.each<[string[], number, string[]]>([
  [['abc', 'de'], 0, ['abc', 'de']],
  [['abc', 'de'], 2, ['c', 'de']],
  [['abc', 'de'], 3, ['de']],
  [['abc', 'de'], 4, ['e']],
  [['abc', 'de'], 5, []],
])('of %j after %d bytes is left %j', (texts, written, left) => {
  const pieces = texts.map((text) => Buffer.from(text));
  dropWritten(pieces, written);
  expect(pieces.map(String)).toEqual(left);
});

test.each([
  ['an empty file', 0, 0, [0], []],
  ['a small file', 1, 64 << 10, [64 << 10], []],
  ['a larger one', 1, (64 << 10) + 1, [], [(64 << 10) + 1]],
  ['one of several writes', 3, 256 << 10, [], [256 << 10, 256 << 10, 256 << 10, 0]],
  ['one of very small pieces', 512, 1, [], [512, 0]],
])('%s is written whole, for the server alone, and closed', async (_, count, size, wholes, parts) => {
  await using directory = await temporary();
  const disk = new NotedDisk(directory.path, async () => false);
  const target = path.join(directory.path, '0');
  const file = new UploadedFile(target, disk, new SyncBehind(new UploadTurns()));
  const pieces = Array.from({ length: count }, (_each, index) => Buffer.alloc(size, index + 1));
  for (const piece of pieces) await file.take(piece);
  await file.finish();
  expect(readFileSync(target).equals(Buffer.concat(pieces))).toBe(true);
  expect(statSync(target).mode & 0o777).toBe(0o600);
  expect([disk.wholes, disk.parts]).toEqual([wholes, parts]);
  expect(openBelow(directory.path)).toEqual([]);
});

test('a file that is there already is not overwritten', async () => {
  await using directory = await temporary();
  await plant(directory.path, { 0: 'before' });
  const target = path.join(directory.path, '0');
  const begin = () =>
    new UploadedFile(
      target,
      new NotedDisk(directory.path, async () => false),
      new SyncBehind(new UploadTurns()),
    );
  const small = begin();
  small.take(Buffer.from('x'));
  expect(() => small.finish()).toThrow('EEXIST');
  const large = begin();
  large.take(Buffer.alloc(100 << 10));
  await expect(large.finish()).rejects.toThrow('EEXIST');
  expect(readFileSync(target, 'utf8')).toBe('before');
});

const receiverIn = (
  directory: string,
  limits: Partial<Record<'maxFileSize' | 'maxUploadSize', number>> = {},
) =>
  new FormReceiver(
    directory,
    new UploadQuota({
      maxFileSize: 1000,
      maxUploadSize: 1000,
      maxExtractedSize: 1000,
      advice: '',
      ...limits,
    }),
    new DiskWatch(directory, async () => false),
    new SyncBehind(new UploadTurns()),
    new EarlyChecks(operationOf('infer'), () => {}),
  );

const headers = (words: string, more: Readonly<Record<string, string>> = {}) => ({
  'content-disposition': `form-data; ${words}`,
  ...more,
});

test('texts and files are received in their order, and the files of a form that failed are removed', async () => {
  await using directory = await temporary();
  const receiver = receiverIn(directory.path);
  const part = async (words: string, ...pieces: string[]) => {
    const sink = await receiver.begin(headers(words));
    for (const piece of pieces) await sink.take(Buffer.from(piece));
    await sink.end();
  };
  await part('name="tag"', 'my ', 'tag');
  await part('name="inputs"; filename="dir/a.nii"', 'abc', 'def');
  await part('name="mask"; filename=""');
  await part('name="inputs"; filename="b.nii"');
  receiver.onProgress(123, 4);
  expect({ fields: receiver.fields, files: receiver.files, bytes: receiver.bytes }).toEqual({
    fields: [
      { name: 'tag', text: 'my tag' },
      { name: 'mask', text: '' },
    ],
    files: [
      { field: 'inputs', name: 'dir/a.nii', path: path.join(directory.path, '0') },
      { field: 'inputs', name: 'b.nii', path: path.join(directory.path, '1') },
    ],
    bytes: 123,
  });
  expect(
    readdirSync(directory.path).map((name) => readFileSync(path.join(directory.path, name), 'utf8')),
  ).toEqual(['abcdef', '']);
  const arriving = await receiver.begin(headers('name="inputs"; filename="c.nii"'));
  await arriving.take(Buffer.from('x'));
  writeFileSync(path.join(directory.path, 'other'), '');
  await receiver.abandon();
  expect(readdirSync(directory.path)).toEqual(['other']);
});

test('what a form may not have is refused with its field and what to do', async () => {
  await using directory = await temporary();
  const refusal = async (words: string, pieces: readonly Buffer[] = [], more = {}) => {
    const receiver = receiverIn(directory.path, { maxFileSize: 4, maxUploadSize: 6 });
    try {
      const sink = await receiver.begin(headers(words, more));
      for (const piece of pieces) await sink.take(piece);
      await sink.end();
      return 'taken';
    } catch (cause) {
      return (cause as Error).message;
    } finally {
      await receiver.abandon();
    }
  };
  const mebibyte = Buffer.alloc(1 << 20, 'x');
  expect([
    await refusal(`name="${'x'.repeat(200)}"`),
    await refusal(`name="${'x'.repeat(201)}"`),
    await refusal('name="tag"', [mebibyte]),
    await refusal('name="tag"', [mebibyte, Buffer.from('x')]),
    await refusal('name="tag"', [Buffer.from([0xff])]),
    await refusal('name="mask"; filename=""', [Buffer.from('x')]),
    await refusal('name="inputs"; filename="a"', [Buffer.from('abcd')]),
    await refusal('name="inputs"; filename="a"', [Buffer.from('abc'), Buffer.from('de')]),
    await refusal('name="inputs"; filename="a"', [], { [partSizeHeader]: '5' }),
    await refusal(`name="inputs"; filename="${'n'.repeat(4097)}"`),
    await refusal('name="tta"; filename="a"'),
  ]).toEqual([
    'taken',
    expect.stringMatching(/has a name of more than 200 characters$/),
    'taken',
    'The texts of the form are longer than 1048576 bytes; send what is long as a file',
    "Field 'tag' is not UTF-8",
    "Field 'mask' has a file without a name: send its name, or leave the field out",
    'taken',
    "File 'a' is larger than the limit of 4 B",
    "File 'a' is larger than the limit of 4 B",
    expect.stringMatching(/^Field 'inputs' has a file whose name is too long: /),
    "Field 'tta' must be sent as text, not as a file",
  ]);
  expect(readdirSync(directory.path)).toEqual([]);
});

test('a form has at most a thousand fields', async () => {
  const receiver = receiverIn('/nowhere');
  for (let count = 0; count < 1000; count += 1) await (await receiver.begin(headers('name="a"'))).end();
  await expect(receiver.begin(headers('name="a"'))).rejects.toThrow(
    'The form has more than 1000 fields; send each once',
  );
});

test.each([
  [
    { free: 100, bytes: -1, files: 5 },
    "The server's disk has 100 B free, which it keeps for the jobs that run: too little for this upload; try again later",
  ],
  [
    { free: 100, bytes: -1, files: -1 },
    "The server's disk has 100 B free, which it keeps for the jobs that run: too little for this upload; try again later",
  ],
  [
    { free: 100, bytes: 0, files: 0 },
    "The server's disk has too little room for this upload; try again later",
  ],
  [
    { free: 100, bytes: 0, files: -1 },
    "The server's disk has too few inodes (files) left for this upload; try again later, or ask its admin to remove files there",
  ],
])('of a disk with %j is said what it lacks', (space, sentence) => {
  expect(noSpace(space, 'this upload')).toMatchObject({ code: 'diskFull', message: sentence });
});

test('room is made until a step succeeds, or there is nothing left to remove', async () => {
  const full = () => Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
  let rooms = 2;
  let tries = 0;
  const makeRoom = async () => {
    rooms -= 1;
    return rooms >= 0;
  };
  const attempt = () => {
    tries += 1;
    if (tries < 3) throw full();
    return 'done';
  };
  expect(await withSpace(makeRoom, attempt)).toBe('done');
  tries = -10;
  rooms = 1;
  await expect(withSpace(makeRoom, attempt)).rejects.toThrow('ENOSPC');
  expect(tries).toBe(-8);
  rooms = 1;
  await expect(withSpace(makeRoom, () => Promise.reject(new Error('other')))).rejects.toThrow('other');
  expect(rooms).toBe(1);
});

test('a disk is due to be looked at after two mebibytes, an empty file counting as four kibibytes', async () => {
  await using directory = await temporary();
  const disk = new DiskWatch(directory.path, async () => false);
  const dueAfter = (count: number, bytes: number) => {
    for (let done = 0; done < count; done += 1) disk.wroteFile(bytes);
    return disk.isDue;
  };
  expect([dueAfter(511, 0), dueAfter(1, 0)]).toEqual([false, true]);
  await disk.check();
  expect([dueAfter(1, (2 << 20) - 1), dueAfter(1, 4096)]).toEqual([false, true]);
  await disk.wrote(1);
  expect(disk.isDue).toBe(false);
});
