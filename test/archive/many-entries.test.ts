import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { extractArchive } from '../../src/archive/extract.js';
import { packListed } from '../../src/archive/pack.js';
import { archiveEnd } from '../../src/archive/read-archive.js';
import { descriptorOf, directoryEntry, endOf, localHeader } from '../../src/archive/zip-records.js';
import { lacks } from '../support/needs.mjs';
import { temporary } from '../support/temporary.js';

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

test('An archive of many entries has a directory of all of them, and every program reads them', async () => {
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

test('An archive has the records of zip64 if the number of its entries needs them, and only then', async () => {
  const all = { start: 100, length: 1000 };
  expect(endOf({ ...all, entries: 65_534 })).toHaveLength(22);
  await using root = await temporary();
  for (const entries of [65_534, 65_535, 65_536, 200_000]) {
    const file = path.join(root.path, 'end');
    writeFileSync(file, Buffer.concat([Buffer.alloc(1100), endOf({ ...all, entries })]));
    await using opened = await open(file);
    expect(await archiveEnd(opened)).toMatchObject({ entries, directory: all });
  }
});

test.skipIf(lacks('python3'))('Python reads entries past 4 GiB, and their sizes past 4 GiB', async () => {
  await using root = await temporary();
  const content = Buffer.from('BBB');
  const file = {
    name: Buffer.from('d/b'),
    mtime: new Date('2026-02-03T04:05:06Z'),
    mode: 0o640,
    isDeflated: false,
    start: 2 ** 32 + 5,
    crc: crc32(content),
    packed: content.length,
    size: content.length,
  };
  const large = { ...file, name: Buffer.from('large'), packed: 2 ** 32 + 7, size: 2 ** 33 };
  const entry = Buffer.concat([localHeader(file), content, descriptorOf(file)]);
  const directory = Buffer.concat([file, large].map(directoryEntry));
  const start = file.start + entry.length;
  const archive = path.join(root.path, 'a.zip');
  {
    // What lies in front of them is a hole in the file.
    await using opened = await open(archive, 'w');
    const end = endOf({ entries: 2, start, length: directory.length });
    await opened.write(Buffer.concat([entry, directory, end]), 0, null, file.start);
    expect(descriptorOf(large)).toHaveLength(24);
  }
  const script = `import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
near, far = archive.infolist()
print(archive.read(near), near.date_time, oct(near.external_attr >> 16))
print(far.compress_size, far.file_size, far.header_offset)`;
  expect(`${execFileSync('python3', ['-c', script, archive])}`).toBe(
    "b'BBB' (2026, 2, 3, 4, 5, 6) 0o100640\n4294967303 8589934592 4294967301\n",
  );
});
