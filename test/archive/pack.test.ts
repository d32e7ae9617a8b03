import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import unzipper from 'unzipper';
import { describe, expect, test } from 'vitest';
import { extractArchive } from '../../src/archive/extract.js';
import { packDirectory, packListed, packTo } from '../../src/archive/pack.js';
import type { PackedPiece } from '../../src/archive/walk-files.js';
import { openBelow } from '../support/open-files.js';
import { plant, temporary } from '../support/temporary.js';

const limits = { maxBytes: 1 << 30, maxEntries: 10_000 };

/** Names of an archive's entries, in their order. */
async function names(archive: string): Promise<string[]> {
  return (await unzipper.Open.file(archive)).files.map((entry) => entry.path);
}

describe('packing a directory', () => {
  test('Packing a directory and extracting the archive gives the same files', async () => {
    await using root = await temporary();
    const source = path.join(root.path, 'source');
    const noise = randomBytes(300_000);
    const files = {
      'a.txt': 'text',
      'deep/er/é 頭🧠.nii': 'umlaut',
      ' a/aux: trailing. ': 'an odd name',
      'empty.bin': '',
      'noise.bin': noise,
      'text.csv': 'value,'.repeat(50_000),
      'scan.nii.gz': 'not really compressed '.repeat(1000),
      'empty-directory/': '',
      '.hidden': 'hidden',
    };
    await plant(source, files);
    const archive = path.join(root.path, 'result.zip');
    const packed = await packDirectory(source, archive);
    expect(packed.files).toBe(8);
    const extracted = await extractArchive(archive, path.join(root.path, 'copy'), limits);
    expect(extracted).toEqual({ ...packed, unplaced: 0 });
    expect(packed.notes).toEqual([]);
    execFileSync('diff', ['-r', source, path.join(root.path, 'copy')]);
    expect((await names(archive)).sort()).toEqual(Object.keys(files).sort());
    expect(readdirSync(root.path).sort()).toEqual(['copy', 'result.zip', 'source']);
  });

  test('Packing a directory follows links to files inside the directory, and no other links', async () => {
    await using root = await temporary();
    const source = path.join(root.path, 'source');
    await plant(source, { 'a.txt': 'inside', 'd/b.txt': 'b', '-2/c.txt': 'c' });
    await plant(root.path, { secret: 'outside', 'source-2/c.txt': 'outside' });
    for (const [name, target] of [
      ['to-a', 'a.txt'],
      ['to-b', 'd/b.txt'],
      ['to-secret', '../secret'],
      ['to-neighbour', '../source-2/c.txt'],
      ['to-passwd', '/etc/passwd'],
      ['to-directory', 'd'],
      ['to-itself', 'to-itself'],
      ['to-nothing', 'nothing'],
      ['to-parent', '..'],
    ] as const) {
      symlinkSync(target, path.join(source, name));
    }
    execFileSync('mkfifo', [path.join(source, 'fifo')]);
    const archive = path.join(root.path, 'a.zip');
    const { notes } = await packDirectory(source, archive);
    expect(await names(archive)).toEqual(['a.txt', 'to-a', 'to-b', '-2/c.txt', 'd/b.txt']);
    expect(notes).toHaveLength(8);
    expect(openBelow(source)).toEqual([]);
  });

  test('Packing a directory packs an empty directory into a valid archive', async () => {
    await using root = await temporary();
    mkdirSync(path.join(root.path, 'source'));
    const archive = path.join(root.path, 'a.zip');
    expect(await packDirectory(path.join(root.path, 'source'), archive)).toEqual({
      files: 0,
      bytes: 0,
      notes: [],
    });
    expect(await extractArchive(archive, path.join(root.path, 'copy'), limits)).toEqual({
      files: 0,
      bytes: 0,
      unplaced: 0,
      notes: [],
    });
  });

  test('Packing a directory includes only the requested files', async () => {
    await using root = await temporary();
    await plant(path.join(root.path, 'source'), { 'a.yml': '1', 'w/model.pt': '2', 'w/b.yml': '3' });
    const archive = path.join(root.path, 'a.zip');
    await packDirectory(path.join(root.path, 'source'), archive, {
      include: (name) => name.endsWith('.yml'),
    });
    expect(await names(archive)).toEqual(['a.yml', 'w/b.yml']);
  });

  test('Packing a directory waits for a sink that takes nothing', async () => {
    await using root = await temporary();
    const source = path.join(root.path, 'source');
    const one = randomBytes(50_000);
    await plant(source, Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`${index}.png`, one])));
    let read = 0;
    const stop = new AbortController();
    const sink = new Writable({ write: () => {} });
    const packing = packTo(sink, source, {
      signal: stop.signal,
      onProgress: (_entries, bytes) => {
        read = bytes;
      },
    });
    const readOnceStill = async (last: number): Promise<number> => {
      for (let turn = 0; turn < 100; turn += 1) await setImmediate();
      return read === last && read > 0 ? read : readOnceStill(read);
    };
    expect(await readOnceStill(-1)).toBeLessThan(3_000_000);
    stop.abort();
    await expect(packing).rejects.toThrow('abort');
  });

  test('Packing a directory leaves no incomplete archive', async () => {
    await using root = await temporary();
    await plant(path.join(root.path, 'source'), {
      'a.bin': randomBytes(3_000_000),
      'b.bin': randomBytes(3_000_000),
    });
    const archive = path.join(root.path, 'a.zip');
    const stop = new AbortController();
    const packing = packDirectory(path.join(root.path, 'source'), archive, {
      signal: stop.signal,
      onProgress: () => stop.abort(),
    });
    await expect(packing).rejects.toThrow('abort');
    expect(readdirSync(root.path)).toEqual(['source']);
    await expect(packDirectory(path.join(root.path, 'nothing'), archive)).rejects.toThrow('ENOENT');
    expect(existsSync(archive)).toBe(false);
  });

  test('Packing a directory fails with the error of a stream that fails between two files', async () => {
    await using root = await temporary();
    const files = ['a.bin', 'b.bin'].map((name) => [`source/${name}`, randomBytes(3_000_000)] as const);
    await plant(root.path, Object.fromEntries(files));
    let isFull = false;
    const full = new Writable({
      write: (_chunk, _encoding, done) => done(isFull ? new Error('no room') : null),
    });
    const closed = new Promise((resolve) => full.once('close', resolve));
    // The last piece of the first file, whose end is still to be written.
    const onProgress = async (entries: number) => {
      if (entries === 0) return;
      isFull = true;
      full.write('more');
      await closed;
    };
    await expect(packTo(full, path.join(root.path, 'source'), { onProgress })).rejects.toThrow('no room');
  });
});

describe('packing pieces of files', () => {
  test('Packing pieces of files packs exactly these pieces, without the times and modes of the files', async () => {
    await using root = await temporary();
    const large = randomBytes(3_000_000);
    await plant(root.path, { small: '0123456789', large });
    const archive = path.join(root.path, 'x.zip');
    const at = (name: string, pieces: readonly PackedPiece[]) => ({
      ...{ name: `${name}.dcm`, path: path.join(root.path, name), pieces: async () => pieces },
    });
    const files = [
      at('small', [Buffer.from('head'), { start: 2, end: 5 }, Buffer.alloc(0), { start: 9, end: 10 }]),
      at('large', [Buffer.from('head'), { start: 1, end: large.length - 1 }]),
    ];
    const packed = await packListed(files, archive, { withoutStats: true });
    expect(packed.bytes).toBe(8 + 4 + large.length - 2);
    const entries = (await unzipper.Open.file(archive)).files;
    expect(entries.map((each) => [each.path, each.lastModifiedDateTime.getFullYear()])).toEqual([
      ['small.dcm', 1980],
      ['large.dcm', 1980],
    ]);
    expect((await entries[0]?.buffer())?.toString()).toBe('head2349');
    const expected = Buffer.concat([Buffer.from('head'), large.subarray(1, -1)]);
    expect((await entries[1]?.buffer())?.equals(expected)).toBe(true);
  });

  test('Packing pieces of files deflates small files, and large ones whose sample at the start, middle or end shrinks', async () => {
    await using root = await temporary();
    const third = 64 * 1024;
    const noise = randomBytes(3 * third);
    const withBlanks = (at: number) => Buffer.from(noise).fill(0, at * third, (at + 1) * third);
    await plant(root.path, {
      'source/blank-start': withBlanks(0),
      'source/blank-middle': withBlanks(1),
      'source/blank-end': withBlanks(2),
      'source/noise': noise,
      'source/small-noise': noise.subarray(0, third),
      'source/small.gz': Buffer.alloc(third),
      'source/text.nii.gz': Buffer.alloc(3 * third),
    });
    const methodsOf = async (isStored: boolean) => {
      const archive = path.join(root.path, 'a.zip');
      const at = path.join(root.path, 'source');
      const files = readdirSync(at).map((name) => ({ name, path: path.join(at, name) }));
      await packListed(files, archive, { isStored });
      const entries = (await unzipper.Open.file(archive)).files;
      return entries.filter((entry) => entry.compressionMethod !== 0).map((entry) => entry.path);
    };
    expect((await methodsOf(false)).sort()).toEqual([
      'blank-end',
      'blank-middle',
      'blank-start',
      'small-noise',
    ]);
    expect(await methodsOf(true)).toEqual([]);
  });

  test('Equal files produce equal archives, whatever their times and modes, if these are not stored', async () => {
    await using root = await temporary();
    const large = Buffer.concat([Buffer.alloc(2_000_000), randomBytes(1_000_000)]);
    const archiveOf = async (directory: string, time: number, mode: number) => {
      await plant(root.path, { [`${directory}/small`]: 'text', [`${directory}/large`]: large });
      const files = ['small', 'large'].map((name) => ({ name, path: path.join(root.path, directory, name) }));
      for (const file of files) {
        utimesSync(file.path, time, time);
        chmodSync(file.path, mode);
      }
      const archive = path.join(root.path, `${directory}.zip`);
      await packListed(files, archive, { withoutStats: true, isStored: true });
      return readFileSync(archive);
    };
    const first = await archiveOf('a', 1e9, 0o600);
    expect(first.length).toBeGreaterThan(large.length);
    expect(first.equals(await archiveOf('b', 1.5e9, 0o755))).toBe(true);
  });

  test.for([
    ['is shorter', (file: string) => truncateSync(file, 5), /'x' became shorter while it was packed/],
    ['is another', (file: string) => writeFileSync(file, 'abcdefghijklm'), /'x' changed while it was packed/],
    [
      'is another one of the same size',
      (file: string) => {
        writeFileSync(file, 'abcdefghij');
        utimesSync(file, 1e9, 1e9);
      },
      /'x' changed while it was packed/,
    ],
  ] as const)('Packing pieces fails if the file %s than when they were chosen', async ([, change, why]) => {
    await using root = await temporary();
    await plant(root.path, { x: '0123456789' });
    const file = path.join(root.path, 'x');
    const pieces = async () => {
      change(file);
      return [{ start: 0, end: 10 }];
    };
    const archive = path.join(root.path, 'x.zip');
    await expect(packListed([{ name: 'x', path: file, pieces }], archive)).rejects.toThrow(why);
    expect(existsSync(archive)).toBe(false);
  });

  test('Packing pieces of files fails with the error of the function that selects them', async () => {
    await using root = await temporary();
    await plant(root.path, { x: '0123456789' });
    const pieces = async () => {
      throw new Error('is refused');
    };
    const files = [{ name: 'x', path: path.join(root.path, 'x'), pieces }];
    await expect(packListed(files, path.join(root.path, 'x.zip'))).rejects.toThrow('is refused');
  });
});
