import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { repack, unpack } from '../../../src/imaging/deidentify/repack.js';
import { cleanedVolume, cleanedVoxels } from '../../../src/imaging/deidentify/volume-file.js';
import * as canary from '../../support/canary-volumes.js';
import { plant, temporary } from '../../support/temporary.js';

type How = Parameters<typeof repack>[2];

/** Packs a part of these bytes anew, from a file in which other bytes precede what is packed. */
async function repacked(bytes: Buffer, how: Partial<How>, signal?: AbortSignal) {
  await using directory = await temporary();
  const file = path.join(directory.path, 'a.gz');
  await plant(directory.path, { 'a.gz': Buffer.concat([Buffer.from('head'), gzipSync(bytes)]) });
  const whole: How = {
    ...{ from: 4, skip: 0, take: bytes.length, inside: Buffer.alloc(0), to: 'gzip' },
    ...{ front: () => Buffer.alloc(0), ...how },
  };
  const target = path.join(directory.path, 'made');
  let told = 0;
  const onBytes = (each: number) => {
    told = each;
  };
  const prepared = await repack(file, target, whole, { signal, onBytes });
  const made = readFileSync(target);
  expect(statSync(target).mode & 0o777).toBe(0o600);
  expect(prepared).toEqual({ path: target, pieces: prepared.pieces, size: prepared.size });
  return { ...prepared, made, told };
}

describe('packed voxels', () => {
  // More than one piece of them is unpacked at once.
  const bytes = Buffer.from(Uint8Array.from({ length: 700_000 }, (_, at) => (at * 7 + (at >> 8)) % 251));

  test('Packed voxels are repacked without the bytes before and after them, even if these exceed one chunk', async () => {
    for (const [skip, take] of [
      [3, 5],
      [300_000, 300_001],
      [0, 700_000],
      [699_999, 1],
    ] as const) {
      const { made, pieces, size, told } = await repacked(bytes, { skip, take });
      expect(gunzipSync(made).equals(bytes.subarray(skip, skip + take))).toBe(true);
      expect([pieces, size]).toEqual([[{ start: 0, end: made.length }], made.length]);
      expect(told).toBeGreaterThanOrEqual(skip + take);
    }
  });

  test('Packed voxels that are fewer than they should be, damaged, or no longer wanted are refused', async () => {
    const short = repacked(Buffer.from('1234'), { skip: 1, take: 4 });
    await expect(short).rejects.toThrow(
      /^'\S+a\.gz' is damaged: it has fewer voxels than its header says; copy it again from the original$/,
    );
    const damaged = repacked(Buffer.from('1234'), { from: 0 });
    await expect(damaged).rejects.toThrow(
      /^'\S+a\.gz' is damaged: its packed data cannot be unpacked; copy it again from the original$/,
    );
    const reason = new Error('Enough');
    await expect(repacked(bytes, {}, AbortSignal.abort(reason))).rejects.toBe(reason);
    const whole = {
      from: 0,
      skip: 0,
      take: 1,
      inside: Buffer.alloc(0),
      to: 'gzip',
      front: Buffer.from,
    } as const;
    const gone = repack('/nowhere/a', '/nowhere/b', whole, { onBytes: () => {} });
    await expect(gone).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

test('A complete file is unpacked only for its user, and a damaged one is reported', async () => {
  await using directory = await temporary();
  await plant(directory.path, { 'a.gz': gzipSync('abc'), 'b.gz': gzipSync('abc').subarray(0, -9) });
  const at = (name: string) => path.join(directory.path, name);
  await unpack(at('a.gz'), at('a'), undefined);
  expect([readFileSync(at('a'), 'utf8'), statSync(at('a')).mode & 0o777]).toEqual(['abc', 0o600]);
  await expect(unpack(at('b.gz'), at('b'), undefined)).rejects.toThrow(
    `'${at('b.gz')}' is damaged: it cannot be unpacked`,
  );
  await expect(unpack(at('a.gz'), at('a'), undefined)).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(unpack(at('a.gz'), at('c'), AbortSignal.abort())).rejects.toMatchObject({
    name: 'AbortError',
  });
});

describe('voxels in a separate file', () => {
  /** What leaves of voxels with this header. */
  async function cleanedOf(
    header: readonly [name: string, text: string | Buffer],
    name: string,
    voxels: Buffer,
  ) {
    await using directory = await temporary();
    await plant(directory.path, { [header[0]]: header[1], [name]: voxels });
    return cleanedVoxels(path.join(directory.path, name), path.join(directory.path, header[0]));
  }
  const mhd = (more = '', data = 'a.raw') => ['a.mhd', canary.metaText('x', data, more)] as const;
  const around = (before: number, after: number) =>
    Buffer.concat([Buffer.alloc(before, 1), canary.voxels, Buffer.alloc(after, 1)]);
  const [before, behind] = ['bytes before the voxels', 'bytes behind the voxels'];

  test.each([
    ['as they are', '', 0, 0, [], 0],
    ['behind others', 'HeaderSize = 5\n', 5, 0, [before], 5],
    ['before others', '', 0, 5, [behind], 0],
    ['between others', 'HeaderSize = 5\n', 5, 1, [before, behind], 5],
    ['at the end of the file', 'HeaderSize = -1\n', 7, 0, [before], 7],
  ])('Voxels in a separate file are sent %s', async (_, more, first, last, removed, start) => {
    expect(await cleanedOf(mhd(more), 'a.raw', around(first, last))).toEqual({
      ...{ kept: ['voxels'], removed, content: { pieces: [{ start, end: start + 48 }] } },
    });
  });

  test('Packed voxels in a separate file are repacked', async () => {
    const zlib = await cleanedOf(mhd('CompressedData = True\nHeaderSize = 3\n'), 'a.raw', canary.voxels);
    expect(zlib).toMatchObject({
      ...{ kept: ['voxels'], removed: [] },
      content: { repack: { from: 0, skip: 3, take: 48, inside: Buffer.alloc(0), to: 'zlib' } },
    });
    const pair = ['a.hdr', canary.niftiHeader('x', { isPair: true })] as const;
    const packed = gzipSync(canary.voxels);
    expect(await cleanedOf(pair, 'a.img', packed)).toMatchObject({
      ...{ kept: ['voxels'], removed: ['the header of gzip'], content: { repack: { take: 48, to: 'gzip' } } },
    });
    expect(await cleanedOf(pair, 'a.img', canary.voxels)).toMatchObject({
      content: { pieces: [{ start: 0, end: 48 }] },
    });
    // They may begin as gzip does without being packed.
    const likeGzip = Buffer.from(canary.voxels);
    likeGzip.set([0x1f, 0x8b]);
    expect(await cleanedOf(mhd(), 'a.raw', likeGzip)).toMatchObject({
      ...{ removed: [], content: { pieces: [{ start: 0, end: 48 }] } },
    });
    const slice = await cleanedOf(mhd('', 'LIST\na.raw\nb.raw'), 'a.raw', canary.voxels.subarray(24));
    expect(slice.content).toEqual({ pieces: [{ start: 0, end: 24 }] });
  });

  test('Voxels in a separate file are refused if they are too few, or if it is unknown where they begin', async () => {
    await expect(cleanedOf(mhd(), 'a.raw', canary.voxels.subarray(1))).rejects.toThrow(
      /a\.raw' is cut short: it has fewer voxels than its header says; copy it again from the original$/,
    );
    await expect(cleanedOf(mhd('HeaderSize = -1\n'), 'a.raw', canary.voxels.subarray(1))).rejects.toThrow(
      /a\.raw' is cut short/,
    );
    await expect(cleanedOf(mhd('HeaderSize = 1\n'), 'a.raw', canary.voxels)).rejects.toThrow(/is cut short/);
    const open = 'CompressedData = True\nHeaderSize = -1\n';
    await expect(cleanedOf(mhd(open), 'a.raw', canary.voxels)).rejects.toThrow(
      /a\.raw' cannot be de-identified: its header does not say where its voxels begin\. /,
    );
    await expect(cleanedOf(['a.txt', 'x'], 'a.raw', canary.voxels)).rejects.toThrow(
      /a\.raw' cannot be de-identified: its header '\S+a\.txt' is none that is understood\. /,
    );
    await expect(cleanedOf(['a.mha', canary.metaImage('x')], 'a.raw', canary.voxels)).rejects.toThrow(
      /a\.mha' is none that is understood\. /,
    );
  });
});

test('A volume in one file is refused if its header does not say where its packed voxels begin', async () => {
  await using directory = await temporary();
  const text = canary.metaText('x', 'LOCAL', 'CompressedData = True\nHeaderSize = -1\n');
  await plant(directory.path, {
    'a.mha': text,
    'b.hdr.gz': gzipSync(canary.niftiHeader('', { isPair: true })),
  });
  expect(() => cleanedVolume(path.join(directory.path, 'a.mha'), () => null)).toThrow(
    "a.mha' cannot be de-identified: its header does not say where its voxels begin. ",
  );
  const { removed, content } = cleanedVolume(path.join(directory.path, 'b.hdr.gz'), () => null);
  expect(removed).toEqual(['extensions', 'the header of gzip']);
  expect('pieces' in content && gunzipSync(content.pieces[0] as Buffer)).toHaveLength(352);
  // What an extension is told by is told once.
  await plant(directory.path, {
    'c.hdr': Buffer.concat([canary.niftiHeader('', { isPair: true }), Buffer.alloc(9)]),
  });
  expect(cleanedVolume(path.join(directory.path, 'c.hdr'), () => null).removed).toEqual(['extensions']);
});
