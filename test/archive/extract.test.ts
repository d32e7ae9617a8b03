import { pbkdf2, randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { entryPath } from '../../src/archive/entry-places.js';
import { type ExtractOptions, extractArchive } from '../../src/archive/extract.js';
import { checkArchive } from '../../src/archive/extract-plan.js';
import { ArchiveSource, archiveEnd, readDirectory } from '../../src/archive/read-archive.js';
import { isSafeName } from '../../src/files/names.js';
import { openBelow } from '../support/open-files.js';
import { plant, temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { type Entry, zip } from '../support/zip.mjs';

const derive = promisify(pbkdf2);

const limits: ExtractOptions = { maxBytes: 100_000, maxEntries: 100 };

/** Extracts these bytes into `out` beside the archive. */
async function extract(root: string, archive: Buffer, options: Partial<ExtractOptions> = {}) {
  writeFileSync(path.join(root, 'a.zip'), archive);
  return extractArchive(path.join(root, 'a.zip'), path.join(root, 'out'), { ...limits, ...options });
}

const a: Entry = { name: 'a', content: 'A' };

describe('an archive', () => {
  test('An archive is extracted beside existing files', async () => {
    await using root = await temporary();
    await plant(path.join(root.path, 'out'), { 'd/kept': 'kept' });
    const archive = zip([
      a,
      { name: 'd/', mode: 0o040755 },
      { name: 'd/é', content: 'E', deflated: true, mode: 0o100644 },
    ]);
    expect(await extract(root.path, archive)).toEqual({ files: 2, bytes: 2, unplaced: 0, notes: [] });
    const read = (name: string) => readFileSync(path.join(root.path, 'out', name), 'utf8');
    expect([read('a'), read('d/é'), read('d/kept')]).toEqual(['A', 'E', 'kept']);
  });

  test('An archive on a disk that cannot be read is not reported as damaged', async () => {
    await using root = await temporary();
    const archive = path.join(root.path, 'a.zip');
    writeFileSync(archive, zip([a]));
    await using source = await ArchiveSource.open(archive);
    const read = source.file.read.bind(source.file);
    // Its end can still be read.
    vi.spyOn(source.file, 'read').mockImplementationOnce(read).mockRejectedValue(new Error('EIO'));
    await expect(readDirectory(source, 10)).rejects.toThrow('EIO');
  });

  test('A damaged archive leaves the descriptors of others open', async () => {
    await using root = await temporary();
    const archive = path.join(root.path, 'a.zip');
    writeFileSync(archive, zip([{ ...a, crc: 7 }]));
    const others: number[] = [];
    // As soon as a number is free, somebody else's file or socket gets it.
    const taking = setInterval(() => others.push(openSync(archive, 'r')), 0);
    const extracting = Array.from({ length: 8 }, async (_, at) => {
      for (let count = 0; count < 25; count += 1) {
        const into = path.join(root.path, `out-${at}`);
        await expect(extractArchive(archive, into, limits)).rejects.toThrow('damaged');
        others.push(openSync(archive, 'r'));
      }
    });
    await Promise.all(extracting);
    clearInterval(taking);
    for (const other of others) closeSync(other);
  });

  test('An archive is refused if its entries claim more bytes than it has', async () => {
    await using root = await temporary();
    const content = randomBytes(300);
    const shared = { statedPacked: 300, statedSize: 300, crc: crc32(content), offset: 0 };
    const others = ['b', 'c', 'd'].map((name) => ({ name, ...shared }));
    const archive = zip([{ name: 'a', content }, ...others]);
    const refusal = { fault: 'corrupt', message: expect.stringContaining('bomb') };
    await expect(extract(root.path, archive)).rejects.toMatchObject(refusal);
    expect(existsSync(path.join(root.path, 'out', 'b'))).toBe(false);
  });

  test.for([
    ['unsafe', [{ name: '../a' }]],
    ['unsafe', [{ name: '/a' }]],
    ['unsafe', [{ name: 'a/../../b' }]],
    ['unsafe', [{ name: '.\\..\\a' }]],
    ['unsafe', [{ name: '\\a' }]],
    ['unsafe', [{ name: '\\\\host\\a' }]],
    ['unsafe', [{ name: '.', content: 'x' }]],
    ['unsafe', [{ name: 'a/b' }, { name: './a\\b' }]],
    ['unsafe', [{ name: '.', mode: 0o120777 }]],
    ['unsafe', [{ name: 'C:/a' }]],
    ['unsafe', [{ name: 'c:a' }]],
    ['unsafe', [{ name: 'a\\..\\b' }]],
    ['unsafe', [{ name: 'a\u0000b' }]],
    ['unsafe', [{ name: 'é'.repeat(128) }]],
    ['unsafe', [{ name: 'd/'.repeat(70) }]],
    ['unsafe', [{ name: '' }]],
    ['unsafe', [a, { name: 'b' }, a]],
    ['unsafe', [{ name: 'd/' }, { name: 'd' }]],
    ['unsafe', [{ name: 'link', content: '/etc/passwd', mode: 0o120777 }]],
    ['unsafe', [{ name: 'device', mode: 0o020666 }]],
    ['unsafe', [{ name: 'fifo', mode: 0o010666 }]],
    ['corrupt', [{ ...a, crc: 7 }]],
    ['corrupt', [{ ...a, statedSize: 2 }]],
    ['corrupt', [{ ...a, flags: 1 }]],
    ['corrupt', [{ ...a, method: 12 }]],
    ['corrupt', [{ ...a, method: 8 }]],
    ['tooLarge', [{ ...a, content: 'x'.repeat(100_001) }]],
    [
      'tooLarge',
      [
        { ...a, content: 'x'.repeat(60_000) },
        { name: 'b', content: 'x'.repeat(60_000) },
      ],
    ],
    ['tooLarge', [{ ...a, content: Buffer.alloc(200_000), deflated: true, statedSize: 5 }]],
    [
      'tooLarge',
      [
        { ...a, content: 'x'.repeat(60_000) },
        { name: 'b', content: Buffer.alloc(90_000), deflated: true, statedSize: 5 },
      ],
    ],
    ['tooLarge', Array.from({ length: 30 }, (_, index) => ({ name: `${index}/` }))],
    ['tooLarge', Array.from({ length: 15 }, (_, index) => ({ name: `${index}/file` }))],
    ['tooMany', Array.from({ length: 101 }, (_, index) => ({ name: `${index}` }))],
    ['tooMany', [{ name: 'd/'.repeat(60) }, { name: 'e/'.repeat(60) }]],
  ] as [string, Entry[]][])('An archive is refused as %s: %o', async ([fault, entries]) => {
    await using root = await temporary();
    await expect(
      extract(root.path, zip([{ name: 'first', content: '1' }, ...entries])),
    ).rejects.toMatchObject({ name: 'ArchiveError', fault });
    if (fault === 'unsafe') expect(existsSync(path.join(root.path, 'out', 'first'))).toBe(false);
    expect(readdirSync(root.path).filter((name) => !['a.zip', 'out'].includes(name))).toEqual([]);
  });

  test.for([
    [{ flags: 1 }, "its entry 'a' is encrypted; make the archive again without a password"],
    [{ method: 99 }, 'is encrypted'],
    [
      { method: 9 },
      "is compressed with Deflate64, which is not supported; make the archive again with Deflate, as 'zip -r' does",
    ],
    [{ method: 12 }, 'is compressed with bzip2'],
    [{ method: 14 }, 'is compressed with LZMA'],
    [{ method: 93 }, 'is compressed with Zstandard'],
    [{ method: 77 }, 'is compressed with method 77'],
  ] as const)('An archive of another kind is refused with advice: %o', async ([entry, sentence]) => {
    await using root = await temporary();
    await expect(extract(root.path, zip([{ ...a, ...entry }]))).rejects.toThrow(sentence);
    await expect(checkArchive(path.join(root.path, 'a.zip'))).rejects.toThrow(sentence);
  });

  test.for([
    ['nothing', Buffer.alloc(0)],
    ['text', Buffer.from('no archive'.repeat(100))],
    ['a cut one', zip([a]).subarray(0, -10)],
    ['one without its beginning', zip([a, { name: 'b', content: 'B'.repeat(500) }]).subarray(300)],
    ['one with a damaged directory', zip([a]).fill(0xff, 32, 76)],
  ] as [string, Buffer][])('A file that is not an archive is refused as corrupt: %s', async ([, archive]) => {
    await using root = await temporary();
    await expect(extract(root.path, archive)).rejects.toMatchObject({ fault: 'corrupt' });
  });

  test.for([
    ['a short one', 'for study 7'],
    ['the longest one', 'c'.repeat(65_535)],
    ['one that looks like an end', `${'c'.repeat(90)}PK\x05\x06${'c'.repeat(90)}`],
  ] as const)('An archive may have a comment: %s', async ([, comment]) => {
    await using root = await temporary();
    const archive = Buffer.concat([zip([a]), Buffer.from(comment)]);
    archive.writeUInt16LE(comment.length, archive.length - comment.length - 2);
    expect(await extract(root.path, archive)).toMatchObject({ files: 1 });
  });

  test('An archive is refused if it states more entries than it has', async () => {
    await using root = await temporary();
    await expect(extract(root.path, zip([a], { statedCount: 50 }))).rejects.toMatchObject({
      fault: 'corrupt',
    });
    await expect(extract(root.path, zip([a], { statedCount: 60_000 }))).rejects.toMatchObject({
      fault: 'tooMany',
    });
  });

  test('An archive is not written through a link in the destination', async () => {
    await using root = await temporary();
    await plant(root.path, { 'out/d/': '', outside: 'untouched' });
    symlinkSync('../outside', path.join(root.path, 'out', 'a'));
    await expect(extract(root.path, zip([a]))).rejects.toThrow('EEXIST');
    expect(readFileSync(path.join(root.path, 'outside'), 'utf8')).toBe('untouched');
  });

  test.for([
    ['small and stored', { content: 'x' }],
    ['small and deflated', { content: 'x', deflated: true }],
    ['large and stored', { content: randomBytes(400_000) }],
    ['large and deflated', { content: randomBytes(400_000), deflated: true }],
  ] as [string, Partial<Entry>][])('An archive leaves no damaged file: %s', async ([, entry]) => {
    await using root = await temporary();
    const archive = zip([{ name: 'new', ...entry, crc: 7 }]);
    await expect(extract(root.path, archive, { maxBytes: 1e6 })).rejects.toMatchObject({ fault: 'corrupt' });
    expect(readdirSync(path.join(root.path, 'out'))).toEqual([]);
  });

  test('A damaged archive does not write bytes to files that are opened next', async () => {
    await using root = await temporary();
    const busy: Promise<Buffer>[] = [];
    // The threads that write have other work at first.
    const onProgress = () => {
      for (let each = 0; each < 8; each += 1) busy.push(derive('a', 'b', 100_000, 32, 'sha512'));
    };
    const archive = zip([{ name: 'new', content: 'xyz', crc: 7 }]);
    const extracting = extract(root.path, archive, { onProgress }).catch((cause: unknown) => cause);
    const isClosed = () => busy.length > 0 && !existsSync(path.join(root.path, 'out/new'));
    await until('its file is closed', isClosed);
    const next = path.join(root.path, 'next');
    const descriptor = openSync(next, 'wx');
    expect(await extracting).toMatchObject({ fault: 'corrupt' });
    await Promise.all(busy);
    expect(readFileSync(next, 'utf8')).toBe('');
    closeSync(descriptor);
  });

  test('An archive can be aborted, and reports its progress', async () => {
    await using root = await temporary();
    const archive = zip([a, { name: 'b', content: 'BB' }]);
    const seen: [number, number][] = [];
    await extract(root.path, archive, { onProgress: (...progress) => seen.push(progress) });
    expect(seen.at(-1)).toEqual([3, 3]);
    await expect(extract(root.path, archive, { signal: AbortSignal.abort() })).rejects.toThrow('abort');
  });
});

describe('small entries', () => {
  const deflated = (name: string, content: string | Buffer): Entry => ({ name, content, deflated: true });
  const many = Array.from({ length: 1200 }, (_, index) =>
    index % 2 === 0
      ? deflated(`d${index % 7}/${index}`, `${index}`.repeat(index))
      : { name: `${index}`, content: 'x' },
  );
  const room = { maxBytes: 1e9, maxEntries: 5000 };

  function expectContents(root: string, entries: readonly Entry[]) {
    for (const { name, content } of entries) {
      expect(readFileSync(path.join(root, 'out', name)).equals(Buffer.from(content as string))).toBe(true);
    }
  }

  test('Small entries are extracted beside large ones, deflated or stored, empty or not', async () => {
    await using root = await temporary();
    const noise = randomBytes(300_000);
    const entries = [
      deflated('empty', ''),
      { name: 'nothing', content: '' },
      deflated('large', noise),
      deflated('e/zeros', Buffer.alloc(300_000)),
      { name: 'e/noise', content: noise },
      ...many,
    ];
    const bytes = entries.reduce((sum, { content = '' }) => sum + content.length, 0);
    expect(await extract(root.path, zip(entries), room)).toMatchObject({ files: entries.length, bytes });
    expect(openBelow(root.path)).toEqual([]);
    expectContents(root.path, entries);
  });

  test.for<[string, Entry]>([
    ['corrupt', { ...deflated('bad', 'bad'), crc: 7 }],
    ['corrupt', { ...deflated('bad', 'bad'), statedSize: 4 }],
    ['unplaced', { name: '1/bad', content: 'below a file' }],
  ])('Small entries are refused as %s if one is at fault: %o', async ([fault, bad]) => {
    await using root = await temporary();
    const archive = zip([...many.slice(0, 40), bad, ...many.slice(40, 80)]);
    await expect(extract(root.path, archive, room)).rejects.toMatchObject({ fault });
  });

  test('The error names a large entry that is damaged in the middle', async () => {
    await using root = await temporary();
    const content = randomBytes(6 << 20).map((byte) => byte & 15);
    const archive = zip([{ name: 'large', content, deflated: true }]);
    archive.fill(0, archive.length >> 2, archive.length >> 1);
    await expect(extract(root.path, archive, { maxBytes: 10 << 20 })).rejects.toThrow(
      "its entry 'large' is damaged",
    );
  });

  test('Small entries are refused if their local header is damaged', async () => {
    await using root = await temporary();
    const archive = zip([deflated('a', 'A'.repeat(50)), deflated('b', 'B')]);
    const copy = () => Buffer.from(archive);
    const damaged = [copy().fill(0, 0, 4), copy().fill(0, 0, 30), copy().fill(0xff, 26, 30)];
    for (const each of damaged) {
      await expect(extract(root.path, each)).rejects.toMatchObject({ fault: 'corrupt' });
    }
  });
});

describe('a large entry that is stored', () => {
  const content = randomBytes(1_500_000);
  const room = { maxBytes: 1e7 };

  test('A large entry that is stored is extracted unchanged, and its progress is reported', async () => {
    await using root = await temporary();
    const told: number[] = [];
    const onProgress = (bytes: number) => told.push(bytes);
    const extracted = await extract(root.path, zip([{ name: 'noise', content }]), { ...room, onProgress });
    expect(extracted).toMatchObject({ files: 1, bytes: content.length });
    expect(readFileSync(path.join(root.path, 'out', 'noise')).equals(content)).toBe(true);
    expect(told.length).toBeGreaterThan(1);
    expect(told.at(-1)).toBe(content.length);
  });

  test.for([
    [
      'corrupt',
      'a byte of it was changed',
      (archive: Buffer) => archive.fill((archive[700_000] ?? 0) ^ 1, 700_000, 700_001),
    ],
    ['corrupt', 'its local header is gone', (archive: Buffer) => archive.fill(0, 0, 4)],
    ['corrupt', 'it would end behind the archive', (archive: Buffer) => archive.fill(0xff, 26, 30)],
  ] as const)('A large entry that is stored is refused as %s where %s', async ([fault, , change]) => {
    await using root = await temporary();
    const archive = change(zip([{ name: 'noise', content }]));
    await expect(extract(root.path, archive, room)).rejects.toMatchObject({ fault });
    expect(openBelow(root.path)).toEqual([]);
  });

  test('A large entry that is stored can be aborted', async () => {
    await using root = await temporary();
    const control = new AbortController();
    const options = { ...room, signal: control.signal, onProgress: () => control.abort() };
    await expect(extract(root.path, zip([{ name: 'noise', content }]), options)).rejects.toThrow('abort');
  });
});

describe('the number of entries', () => {
  /** A zip64 end: its record, its locator and the plain end record. */
  function zip64End(count: bigint, lead = 0, recordAt = BigInt(lead)): Buffer {
    const record = Buffer.alloc(56);
    record.write('PK\x06\x06', 'latin1');
    record.writeBigUInt64LE(44n, 4);
    record.writeBigUInt64LE(count, 24);
    record.writeBigUInt64LE(count, 32);
    const locator = Buffer.alloc(20);
    locator.write('PK\x06\x07', 'latin1');
    locator.writeBigUInt64LE(recordAt, 8);
    const end = Buffer.alloc(22);
    end.write('PK\x05\x06', 'latin1');
    for (const at of [8, 10]) end.writeUInt16LE(0xffff, at);
    for (const at of [12, 16]) end.writeUInt32LE(0xffffffff, at);
    return Buffer.concat([Buffer.alloc(lead), record, locator, end]);
  }

  /** The same archive with a zip64 end that states this number of entries. */
  function withZip64End(archive: Buffer, count: bigint): Buffer {
    const [body, end] = [archive.subarray(0, -22), archive.subarray(-22)];
    const zip64 = zip64End(count, 0, BigInt(body.length));
    zip64.writeBigUInt64LE(BigInt(end.readUInt32LE(12)), 40);
    zip64.writeBigUInt64LE(BigInt(end.readUInt32LE(16)), 48);
    return Buffer.concat([body, zip64]);
  }

  /** The same archive, which says that its directory begins elsewhere. */
  function beginsAt(archive: Buffer, start: bigint): Buffer {
    const bytes = withZip64End(archive, 1n);
    bytes.writeBigUInt64LE(start, bytes.length - 98 + 48);
    return bytes;
  }

  async function count(archive: Buffer): Promise<number> {
    await using root = await temporary();
    const name = path.join(root.path, 'a.zip');
    writeFileSync(name, archive);
    await using file = await open(name);
    return (await archiveEnd(file)).entries;
  }

  test('The number of entries comes from the zip64 end record, and the entries are extracted', async () => {
    await using root = await temporary();
    const archive = withZip64End(zip([a, { name: 'b' }]), 2n);
    expect(await extract(root.path, archive)).toMatchObject({ files: 2 });
  });

  test('The number of entries comes from the end record of the archive', async () => {
    expect(await count(zip([a, { name: 'b' }]))).toBe(2);
    expect(await count(zip([]))).toBe(0);
    expect(await count(zip64End(123_456n, 1000))).toBe(123_456);
  });

  test.for([
    ['a locator that is missing', zip64End(5n).subarray(60)],
    ['a record past the end', zip64End(5n, 10, 1n << 40n)],
    ['a record elsewhere', zip64End(5n, 1000, 3n)],
    ['an end that is cut', zip([a]).subarray(0, -1)],
  ] as [string, Buffer][])('A made-up number of entries is refused: %s', async ([, archive]) => {
    await expect(count(archive)).rejects.toMatchObject({ fault: 'corrupt' });
  });

  test('An archive with more entries than its end record can state is refused, because some would be missed', async () => {
    await using root = await temporary();
    // 65,540 entries: the end of the archive says 4.
    const directories = Array.from({ length: 65_540 }, (_, index) => ({ name: `d${index}/` }));
    const archive = zip([...directories.slice(0, -1), a]);
    expect(await count(archive)).toBe(4);
    await expect(extract(root.path, archive)).rejects.toThrow("make it again, with 'zip -r' for instance");
  });

  test.for<[string, Buffer]>([
    ['fewer', zip([a, { name: 'b' }], { statedCount: 1 })],
    ['none', zip([a, { name: 'b' }], { statedCount: 0 })],
    ['more', zip([a, { name: 'b' }], { statedCount: 3 })],
    ['fewer, in zip64', withZip64End(zip([a, { name: 'b' }]), 1n)],
    ['one that begins where no file has bytes', beginsAt(zip([a]), 2n ** 60n)],
  ])('An end record that states a different number of entries is refused: %s', async ([, archive]) => {
    await using root = await temporary();
    await expect(extract(root.path, archive)).rejects.toMatchObject({ fault: 'corrupt' });
    expect(existsSync(path.join(root.path, 'out', 'a'))).toBe(false);
  });

  test('A file that consists of two archives counts the entries of the last one, and is refused', async () => {
    await using root = await temporary();
    const both = Buffer.concat([zip([{ name: 'old', content: '1' }]), zip([{ name: 'new', content: '2' }])]);
    await expect(extract(root.path, both)).rejects.toThrow('its directory is not where its end says it is');
  });

  test('A number of entries that would need too much memory is refused before memory is allocated', async () => {
    await using root = await temporary();
    await expect(extract(root.path, zip64End(1n << 60n, 200))).rejects.toMatchObject({ fault: 'tooMany' });
  });
});

describe('a name', () => {
  test('A name stays under its root', () => {
    expect(entryPath('/root', 'a/b.nii')).toBe('/root/a/b.nii');
    expect(entryPath('/root', 'a/')).toBe('/root/a');
    for (const name of ['', '/', '..', '../a', 'a/..', 'a/../b', '/a', 'a\\b', 'c:/a', './a']) {
      expect([name, entryPath('/root', name)]).toEqual([name, null]);
    }
  });

  test.for(['aux', 'COM1.txt', 'lpt9.nii.gz', 'T1:x', 'x.', 'x '])(
    'A name follows the rules of Windows only on Windows: %o',
    (name) => {
      expect([isSafeName(name, 'linux'), isSafeName(name, 'win32')]).toEqual([true, false]);
      expect(entryPath('/root', `d/${name}`, 'linux')).toBe(`/root/d/${name}`);
      expect(entryPath('/root', `d/${name}`, 'win32')).toBe(null);
    },
  );
});
