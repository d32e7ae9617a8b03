import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type ExtractOptions, extractArchive } from '../../src/archive/extract.js';
import { checkArchive } from '../../src/archive/extract-plan.js';
import { packDirectory, packListed } from '../../src/archive/pack.js';
import { ArchiveSource, readDirectory } from '../../src/archive/read-archive.js';
import { countFiles } from '../../src/archive/walk-files.js';
import { plant, temporary } from '../support/temporary.js';
import { type Entry, zip } from '../support/zip.mjs';

/** A directory with an archive of these entries. */
async function archived(entries: readonly Entry[]) {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const file = path.join(root.path, 'a.zip');
  writeFileSync(file, zip(entries));
  return { file, out: path.join(root.path, 'out') };
}

const generous: ExtractOptions = { maxBytes: 1e6, maxEntries: 100 };

/** What extracting gives, or the fault and the words of its refusal. */
const outcome = (extracting: Promise<unknown>) =>
  extracting.catch(({ fault, message }) => `${fault}: ${message}`);

const a: Entry = { name: 'a', content: 'AAA' };

test('The disk space that an archive needs is known before it is written, and may equal the limit', async () => {
  // Three directories and the rest of a block for each of two files.
  const content = 5000 + 3;
  const bytes = content + (4096 - 3) + 3 * 4096;
  const entries = [a, { name: 'b/c/d', content: 'x'.repeat(5000) }, { name: 'e/' }];
  const { file, out } = await archived(entries);
  const planned: unknown[] = [];
  const told: unknown[] = [];
  const options = {
    onPlan: (...plan: number[]) => planned.push(plan),
    onProgress: (...progress: number[]) => told.push(progress),
  };
  expect(await outcome(extractArchive(file, out, { ...options, maxBytes: bytes - 1, maxEntries: 5 }))).toBe(
    `tooLarge: it extracts to ${bytes} bytes, its directories among them, more than the limit of ${bytes - 1}`,
  );
  expect(await outcome(extractArchive(file, out, { ...options, maxBytes: bytes, maxEntries: 4 }))).toBe(
    'tooMany: it extracts to more files and directories than the 4 allowed',
  );
  expect(await outcome(extractArchive(file, out, { ...options, maxBytes: bytes, maxEntries: 2 }))).toBe(
    'tooMany: it has 3 entries, more than the 2 allowed',
  );
  expect(planned).toEqual([]);
  expect(await extractArchive(file, out, { ...options, maxBytes: bytes, maxEntries: 5 })).toEqual({
    files: 2,
    bytes: content,
    unplaced: 0,
    notes: [],
  });
  expect(planned).toEqual([[5, bytes, content]]);
  expect(told).toEqual([
    [3, content],
    [content, content],
  ]);
});

test.for<[string, Entry[], Partial<ExtractOptions>, string]>([
  [
    'bytes behind the end of a deflated entry',
    [{ name: 'a', content: 'A'.repeat(99), deflated: true, statedPacked: 9 }],
    {},
    "corrupt: its entry 'a' is damaged",
  ],
  ['two of one name', [a, a], {}, "unsafe: it has two entries named 'a'"],
  ['a file and a directory', [a, { name: 'a/' }], {}, "unsafe: it has two entries named 'a/'"],
  ['a link', [{ ...a, mode: 0o120777 }], {}, "unsafe: its entry 'a' is a link or a device, not a file"],
  ['a reserved name', [a], { reserved: ['a'] }, "unsafe: its entry 'a' has a name that cannot be extracted"],
  ['an entry larger than it says', [{ ...a, statedSize: 2 }], {}, "corrupt: its entry 'a' is damaged"],
])('An archive with %s is refused with a precise message', async ([, entries, options, words]) => {
  const { file, out } = await archived(entries);
  expect(await outcome(extractArchive(file, out, { ...generous, ...options }))).toBe(words);
});

test('Entries may be stored in a different order than the directory lists them', async () => {
  const { file, out } = await archived([a, { name: 'b', content: 'B' }]);
  const bytes = readFileSync(file);
  const [first, second, end] = [
    bytes.indexOf('PK\x01\x02', 'latin1'),
    bytes.lastIndexOf('PK\x01\x02', undefined, 'latin1'),
    bytes.indexOf('PK\x05\x06', 'latin1'),
  ];
  const parts = [bytes.subarray(0, first), bytes.subarray(second, end), bytes.subarray(first, second)];
  writeFileSync(file, Buffer.concat([...parts, bytes.subarray(end)]));
  expect(await extractArchive(file, out, generous)).toMatchObject({ files: 2, unplaced: 0 });
  expect(['a', 'b'].map((name) => readFileSync(path.join(out, name), 'utf8'))).toEqual(['AAA', 'B']);
});

/** The archive of one entry whose 64-bit fields state these numbers: its packed size and where it begins. */
function zip64(packed: bigint | null, offset: bigint | null): Buffer {
  const bytes = zip([a]);
  const [directory, end] = ['PK\x01\x02', 'PK\x05\x06'].map((mark) =>
    bytes.lastIndexOf(mark, undefined, 'latin1'),
  );
  const fields = [packed, offset].filter((each) => each !== null);
  const extra = Buffer.alloc(4 + 8 * fields.length);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(8 * fields.length, 2);
  for (const [index, field] of fields.entries()) extra.writeBigUInt64LE(field, 4 + 8 * index);
  const entry = Buffer.from(bytes.subarray(directory, end));
  if (packed !== null) entry.writeUInt32LE(0xffffffff, 20);
  entry.writeUInt16LE(extra.length, 30);
  if (offset !== null) entry.writeUInt32LE(0xffffffff, 42);
  const tail = Buffer.from(bytes.subarray(end));
  tail.writeUInt32LE(entry.length + extra.length, 12);
  return Buffer.concat([bytes.subarray(0, directory), entry, extra, tail]);
}

test.each([
  ['a place behind its end', null, 5000n, "its entry 'a' is damaged"],
  ['a place that is no number', null, 2n ** 60n, "its entry 'a' is damaged"],
  [
    'a size that is no number',
    2n ** 60n,
    0n,
    'its entries claim more bytes than the whole archive has: it is damaged, or a zip bomb',
  ],
] as const)('An archive whose entry has %s is damaged', async (_, packed, offset, words) => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const file = path.join(root.path, 'a.zip');
  writeFileSync(file, zip64(packed, offset));
  const out = path.join(root.path, 'out');
  expect(await outcome(extractArchive(file, out, generous))).toBe(`corrupt: ${words}`);
});

test('An existing file is kept, whatever names it has', async () => {
  const { file, out } = await archived([a, { name: 'b', content: 'B' }]);
  await plant(out, { a: 'mine' });
  linkSync(path.join(out, 'a'), path.join(out, 'c'));
  expect(await outcome(extractArchive(file, out, generous))).toBe(
    "unplaced: its entry 'a' cannot be placed (EEXIST)",
  );
  expect(readdirSync(out)).toEqual(['a', 'c']);
  expect(await extractArchive(file, out, { ...generous, lenient: true })).toEqual({
    files: 1,
    bytes: 1,
    unplaced: 1,
    notes: ["'a' was not extracted: something else is in its place"],
  });
  expect(['a', 'c'].map((name) => readFileSync(path.join(out, name), 'utf8'))).toEqual(['mine', 'mine']);
});

test('A directory where a file belongs is kept, and so is a file where a directory belongs', async () => {
  const { file, out } = await archived([a, { name: 'b/c', content: 'C' }]);
  await plant(out, { 'a/inside': 'x', b: 'a file' });
  expect(await outcome(extractArchive(file, out, generous))).toMatch(
    /^unplaced: its entry 'a' cannot be placed \(EEXIST\)$/,
  );
  expect(await extractArchive(file, out, { ...generous, lenient: true })).toMatchObject({
    files: 0,
    unplaced: 2,
  });
  expect([readdirSync(path.join(out, 'a')), readFileSync(path.join(out, 'b'), 'utf8')]).toEqual([
    ['inside'],
    'a file',
  ]);
});

test('Extracted files are readable only by the current user unless another mode is requested', async () => {
  const { file, out } = await archived([a]);
  const modeIn = (directory: string) => statSync(path.join(directory, 'a')).mode & 0o777;
  await extractArchive(file, out, generous);
  expect(modeIn(out)).toBe(0o600);
  await extractArchive(file, `${out}-2`, { ...generous, mode: 0o666 });
  expect(modeIn(`${out}-2`)).toBe(0o666 & ~process.umask());
});

test('Before it is sent, an archive is checked against the rules of its receiver', async () => {
  const check = async (...entries: Entry[]) => outcome(checkArchive((await archived(entries)).file));
  expect([
    await check(a),
    await check({ name: 'd/' }, { name: 'd/e/' }),
    await check(),
    await check({ name: './' }, { name: '.\\d\\a', content: 'x' }),
    await check({ name: 'aux', content: 'x' }),
    await check({ name: 'a\\..\\b', content: 'x' }),
    await check({ ...a, flags: 1 }),
  ]).toEqual([
    true,
    false,
    false,
    true,
    true,
    "unsafe: its entry 'a/../b' has a name that cannot be extracted",
    "corrupt: its entry 'a' is encrypted; make the archive again without a password",
  ]);
});

test('A packed file keeps its mode and time, and directories are packed only if they are empty', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  await plant(source, { 'd/run': 'x', secret: '', 'empty/': '' });
  chmodSync(path.join(source, 'd/run'), 0o4755);
  chmodSync(path.join(source, 'secret'), 0o600);
  const time = Date.parse('2020-02-03T04:05:06Z');
  for (const name of ['d/run', 'secret']) utimesSync(path.join(source, name), time / 1000, time / 1000);
  const archive = path.join(root.path, 'a.zip');
  expect(await packDirectory(source, archive)).toEqual({ files: 2, bytes: 1, notes: [] });
  await using opened = await ArchiveSource.open(archive);
  const entries = await readDirectory(opened, 10);
  expect(entries.map((entry) => [entry.path, (entry.externalFileAttributes >>> 16) & 0o7777])).toEqual([
    ['secret', 0o600],
    ['d/run', 0o755],
    ['empty/', statSync(path.join(source, 'empty')).mode & 0o777],
  ]);
  const [file] = entries as unknown as { lastModifiedDateTime: Date }[];
  expect(file?.lastModifiedDateTime.getTime()).toBe(time);
  expect(statSync(archive).mode & 0o777).toBe(0o600);
  expect([await countFiles(source, 10), await countFiles(source, 1)]).toEqual([2, 1]);
});

test('A listed file that is missing, or a list too long to extract, produces no archive', async () => {
  await using root = await temporary();
  await plant(root.path, { a: 'a', b: 'b' });
  const archive = path.join(root.path, 'a.zip');
  const listed = (...names: string[]) => names.map((name) => ({ name, path: path.join(root.path, name) }));
  await expect(packListed(listed('a', 'gone'), archive)).rejects.toThrow('ENOENT');
  const tooMany = Array.from({ length: 200_001 }, (_, index) => ({ name: `${index}`, path: '/dev/null' }));
  await expect(packListed(tooMany, archive)).rejects.toThrow(
    'An archive of more than 200000 files and directories could not be extracted',
  );
  expect(readdirSync(root.path)).toEqual(['a', 'b']);
  expect(await packListed(listed('a', 'b'), archive)).toEqual({ files: 2, bytes: 2, notes: [] });
  // A directory that somebody made in its place goes.
  const other = path.join(root.path, 'other.zip');
  mkdirSync(path.join(other, 'inside'), { recursive: true });
  await packListed(listed('a'), other);
  expect(statSync(other).isFile()).toBe(true);
});
