import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { extractArchive } from '../../src/archive/extract.js';
import { packListed } from '../../src/archive/pack.js';
import { archiveEnd } from '../../src/archive/read-archive.js';
import { directoryIn, endOf, movedDirectory } from '../../src/archive/zip-directory.js';
import { lacks } from '../support/needs.mjs';
import { temporary } from '../support/temporary.js';
import { zip } from '../support/zip.mjs';

/** Packs this many files and empty directories. A file repeats its number. Returns the archive. */
async function packed(root: string, count: number): Promise<string> {
  const source = path.join(root, 'source');
  mkdirSync(source);
  const files = Array.from({ length: count }, (_, index) => ({
    name: index % 10 === 0 ? `d${index}/` : `${index % 7}/${index}.txt`,
    path: path.join(source, `${index}`),
  }));
  for (const [index, file] of files.entries()) {
    if (file.name.endsWith('/')) mkdirSync(file.path);
    else writeFileSync(file.path, `${index} `.repeat(index % 50));
  }
  const archive = path.join(root, 'a.zip');
  expect(await packListed(files, archive)).toMatchObject({ files: count * 0.9, notes: [] });
  return archive;
}

test('An archive written in several parts has a directory of all its entries, and every program can read them', async () => {
  await using root = await temporary();
  const archive = await packed(root.path, 2500);
  const out = path.join(root.path, 'out');
  const extracted = await extractArchive(archive, out, { maxBytes: 1e8, maxEntries: 5000 });
  expect(extracted).toMatchObject({ files: 2250, notes: [] });
  for (const index of [1, 999, 1001, 1999, 2001, 2499])
    expect(readFileSync(path.join(out, `${index % 7}/${index}.txt`), 'utf8')).toBe(
      `${index} `.repeat(index % 50),
    );
  if (!lacks('unzip')) expect(`${execFileSync('unzip', ['-tq', archive])}`).toContain('No errors detected');
  if (lacks('python3')) return;
  const script = `import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
for each in archive.infolist():
    if not each.is_dir():
        number = int(each.filename.split('/')[1][:-4])
        assert archive.read(each).decode() == f'{number} ' * (number % 50), each
print(len(archive.infolist()))`;
  expect(`${execFileSync('python3', ['-c', script, archive])}`).toBe('2500\n');
});

test('An archive has zip64 records only if the number of its entries requires them', async () => {
  const all = { start: 100, length: 1000 };
  expect(endOf({ ...all, entries: 65_534 })).toHaveLength(22);
  await using root = await temporary();
  for (const entries of [65_534, 65_535, 65_536, 200_000]) {
    const file = path.join(root.path, 'end');
    writeFileSync(file, Buffer.concat([Buffer.alloc(1100), endOf({ ...all, entries })]));
    await using opened = await open(file);
    expect(await archiveEnd(opened)).toMatchObject({ entries, directory: all });
  }
  for (const far of [
    { entries: 1, start: 2 ** 32 - 1, length: 50 },
    { entries: 1, start: 5, length: 2 ** 33 },
  ])
    expect(directoryIn(endOf(far))).toEqual({ start: far.start, length: far.length });
});

test('The offset of an entry is counted from the start of the archive, even beyond 4 GiB', () => {
  const archive = zip([
    { name: 'a', content: 'AAA' },
    { name: 'b', content: 'BB' },
  ]);
  const { start, length } = directoryIn(archive);
  const directory = archive.subarray(start, start + length);
  const near = movedDirectory(directory, 1000);
  expect([near.readUInt32LE(42), near.readUInt32LE(47 + 42), near.length]).toEqual([
    1000,
    1000 + 31 + 3,
    directory.length,
  ]);
  // Each gets the fields of zip64: its own size, its packed size, its place. The second move finds them there.
  for (const [far, base] of [
    [movedDirectory(directory, 2 ** 32), 2 ** 32],
    [movedDirectory(movedDirectory(directory, 2 ** 32), 7), 2 ** 32 + 7],
  ] as const) {
    const second = 47 + 28;
    expect(far.length).toBe(2 * second);
    for (const [at, size, place] of [
      [0, 3n, base],
      [second, 2n, base + 34],
    ] as const) {
      expect([20, 24, 42].map((field) => far.readUInt32LE(at + field))).toEqual(Array(3).fill(0xffffffff));
      expect([far.readUInt16LE(at + 6), far.readUInt16LE(at + 30)]).toEqual([45, 28]);
      const extra = far.subarray(at + 47, at + second);
      expect([extra.readUInt16LE(0), extra.readUInt16LE(2)]).toEqual([1, 24]);
      expect([4, 12, 20].map((field) => extra.readBigUInt64LE(field))).toEqual([size, size, BigInt(place)]);
    }
  }
});

test.skipIf(lacks('python3'))('Python reads entries that lie beyond 4 GiB in the archive', async () => {
  await using root = await temporary();
  const archive = zip([
    { name: 'a', content: 'AAA' },
    { name: 'b', content: 'B'.repeat(500), deflated: true },
  ]);
  const { start, length } = directoryIn(archive);
  const by = 2 ** 32 + 5;
  const directory = movedDirectory(archive.subarray(start, start + length), by);
  const end = endOf({ entries: 2, start: by + start, length: directory.length });
  const file = path.join(root.path, 'a.zip');
  {
    // What lies in front of them is a hole in the file.
    await using opened = await open(file, 'w');
    await opened.write(Buffer.concat([archive.subarray(0, start), directory, end]), 0, null, by);
  }
  const script = `import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
print([archive.read(name) for name in archive.namelist()] == [b'AAA', b'B' * 500])`;
  expect(`${execFileSync('python3', ['-c', script, file])}`).toBe('True\n');
});
