import { truncate } from 'node:fs/promises';
import path from 'node:path';
import { constants, deflateRawSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { dicomFile, element, type Slice } from '../../../test/support/dicom-files.js';
import { parseMetaHeader, readStart, unzippedStart, voxelFilesOf } from '../src/headers/index.js';
import { openSeries, openVolume } from '../src/index.js';
import { lines, refusalOf, workspace, write } from './written.js';

/** Less than a synchronous loop of seconds, on a busy machine. */
const atOnce = 5000;

const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
/** The beginning of a data set, and one whose second element is longer than any file. */
const sopClass = Buffer.concat([
  Buffer.from('0800160055491a00', 'hex'),
  Buffer.from('1.2.840.10008.5.1.4.1.1.2\0'),
]);
const endless = Buffer.concat([sopClass, Buffer.from('09000100554e0000', 'hex'), u32(0x7fff_ff00)]);
const meta = (syntax: string) => {
  const uid = syntax.length % 2 === 0 ? syntax : `${syntax}\0`;
  const element = Buffer.concat([
    Buffer.from('020010005549', 'hex'),
    Buffer.from(Uint16Array.of(uid.length).buffer),
    Buffer.from(uid),
  ]);
  const group = Buffer.concat([Buffer.from('02000000554c0400', 'hex'), u32(element.length), element]);
  return Buffer.concat([Buffer.alloc(128), Buffer.from('DICM'), group]);
};
const explicit = '1.2.840.10008.1.2.1';

const slice: Slice = { pixels: new Int16Array(4), size: [2, 2], position: [0, 0, 0] };
const fileWith = async (name: string, ...parts: Buffer[]) => write(await workspace(), name, ...parts);

describe('A file that is only recognised', () => {
  const bomb = Buffer.alloc(40 << 20);

  test('Only a few megabytes of deflated DICOM are inflated to recognise it', async () => {
    const [begin, zeros] = [endless, Buffer.alloc(1 << 20)].map((part) =>
      deflateRawSync(part, { finishFlush: constants.Z_FULL_FLUSH }),
    ) as [Buffer, Buffer];
    const deflated = Buffer.concat([begin, ...Array(4000).fill(zeros)]);
    const begun = performance.now();
    const { dicom } = await readStart(await fileWith('a.dcm', meta('1.2.840.10008.1.2.1.99'), deflated));
    expect(dicom?.sopClass).toBe('1.2.840.10008.5.1.4.1.1.2');
    expect(performance.now() - begun).toBeLessThan(atOnce);
  });

  test('Only a few megabytes of a gzip file are unpacked to recognise it', () => {
    expect(unzippedStart(gzipSync(bomb)).length).toBeLessThanOrEqual(8 << 20);
  });

  test('Elements beyond a limit are left out when a file is only recognised', async () => {
    const empty = Buffer.alloc(4 << 20);
    for (let at = 0; at < empty.length; at += 8) empty.write('\x09\0\x01\0LO', at, 'latin1');
    const file = await fileWith('a.dcm', meta(explicit), sopClass, empty);
    const begun = performance.now();
    expect((await readStart(file)).dicom?.sopClass).toBe('1.2.840.10008.5.1.4.1.1.2');
    expect(performance.now() - begun).toBeLessThan(atOnce);
  });
});

describe('A DICOM file', () => {
  test('A DICOM file is refused if it claims more frames than it has positions, or than any file has', async () => {
    const more = [
      element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.2'),
      element(0x00280008, 'IS', '8000000'),
      element(0x00280100, 'US', [1]),
    ];
    const file = await fileWith(
      'a.dcm',
      dicomFile({ ...slice, size: [1, 1], pixels: new Uint8Array(1e6), more }),
    );
    expect(await refusalOf(openVolume(file))).toContain('a.dcm says that it has 8000000 frames');
    const fewer = more.map((each) => (each.tag === 0x00280008 ? element(each.tag, 'IS', '4000') : each));
    const other = await fileWith(
      'b.dcm',
      dicomFile({ ...slice, size: [1, 1], pixels: new Uint8Array(1e6), more: fewer }),
    );
    expect(await refusalOf(openVolume(other))).toContain('frame 1 of b.dcm has no position');
  });

  test('A DICOM file is refused if it describes fewer frames than it claims', async () => {
    const frames = [0, 1].map((z) => ({ position: [0, 0, z] }));
    const more = [element(0x00280008, 'IS', '3')];
    const file = await fileWith('a.dcm', dicomFile({ ...slice, pixels: new Int16Array(12), frames, more }));
    expect(await refusalOf(openVolume(file))).toContain('a.dcm describes 2 of its 3 frames');
  });

  test('A DICOM file is refused if it has too many elements, or inflates to too many bytes', async () => {
    const items = Buffer.alloc(9 << 20);
    for (let at = 0; at < items.length; at += 8) items.write('\xfe\xff\x00\xe0', at, 'latin1');
    const sequence = Buffer.concat([Buffer.from('400030a753510000', 'hex'), u32(items.length), items]);
    const begun = performance.now();
    expect(
      await refusalOf(openVolume(await fileWith('a.dcm', meta(explicit), sopClass, sequence))),
    ).toContain('a.dcm has more than 500000 elements');
    expect(performance.now() - begun).toBeLessThan(atOnce);
    // Parts that are deflated on their own are one stream together.
    const [begin, zeros] = [endless, Buffer.alloc(1 << 20)].map((part) =>
      deflateRawSync(part, { finishFlush: constants.Z_FULL_FLUSH }),
    ) as [Buffer, Buffer];
    const deflated = await fileWith(
      'b.dcm',
      meta('1.2.840.10008.1.2.1.99'),
      Buffer.concat([begin, ...Array(600).fill(zeros)]),
    );
    expect(await refusalOf(openVolume(deflated))).toContain(
      'b.dcm is deflated and becomes more than 512 MiB',
    );
  }, 60_000);

  /** A file with a hole at its end, which takes no space. */
  const sparse = async (bytes: number, ...parts: Buffer[]) => {
    const file = await fileWith('large.dcm', ...parts);
    await truncate(file, bytes);
    return file;
  };
  const image = (rows: number, columns: number) => {
    const whole = dicomFile({ ...slice, size: [columns, rows], pixels: new Uint8Array(2) });
    return whole.subarray(0, -14);
  };
  const longPixels = (length: number) => Buffer.concat([Buffer.from('e07f10004f420000', 'hex'), u32(length)]);

  test.each<[string, number, Buffer[], string]>([
    ['a frame of 4 GB', 4.3e9, [image(65535, 65535), longPixels(65535 * 65535)], '65535 x 65535 pixels'],
    [
      'an offset table of 3.9 GB',
      4e9,
      [image(4, 4), longPixels(0xffff_ffff), Buffer.from('feff00e0', 'hex'), u32(3.9e9)],
      'in more parts than are read',
    ],
    ['a header without an end', 3.9e9, [meta(explicit), endless], 'no image within its first 128 MiB'],
  ])(
    'A DICOM file with %s is refused before it is read into memory',
    async (_, bytes, parts, sentence) => {
      const file = await sparse(bytes, ...parts);
      expect(await refusalOf(openVolume(file))).toContain(sentence);
    },
    60_000,
  );

  test('A segmentation is refused if its frames lie on more slices than any scan has', async () => {
    const frames = [0, 0.5, 1e6].map((z) => ({
      position: [0, 0, z],
      more: [element(0x0062000a, 'SQ', [[element(0x0062000b, 'US', [1])]])],
    }));
    const more = [element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.66.4')];
    const file = await fileWith('seg.dcm', dicomFile({ ...slice, pixels: new Uint8Array(12), frames, more }));
    expect(await refusalOf(openVolume(file))).toContain('lie on 2000001 slices, more than any scan has');
  });
});

describe('A header that would take long to parse', () => {
  test.each([
    ['parentheses', `space directions: ${'('.repeat(1e6)}`],
    [
      'parentheses in lines',
      `space directions: ${'('.repeat(60_000)}\nspace origin: ${'('.repeat(60_000)}\n\n`,
    ],
    ['axes', `sizes: ${'1 '.repeat(30_000)}\n\n`],
  ])('An NRRD header with endless %s is refused at once', async (_, field) => {
    const head = lines('NRRD0004', 'type: uchar', 'dimension: 3', 'sizes: 2 2 2', 'encoding: raw');
    const file = await fileWith('a.nrrd', Buffer.from(`${head}${field}`));
    const begun = performance.now();
    expect(await refusalOf(openVolume(file))).toContain('a.nrrd');
    expect(performance.now() - begun).toBeLessThan(atOnce);
  });

  test('A file name pattern is used only if it is short and produces few names', () => {
    const head = 'NDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = ';
    const namesOf = (words: string) => parseMetaHeader(Buffer.from(`${head}${words}\n`))?.dataFiles ?? [];
    expect(namesOf('a%02d.raw 1 3 1')).toEqual(['a01.raw', 'a02.raw', 'a03.raw']);
    const long = `${'a'.repeat(30_000)}%d.raw`;
    for (const words of [`${long} 1 100000 1`, 'a%0400000000d.raw 1 10000 1'])
      expect(namesOf(words)).toEqual([words]);
    const begun = performance.now();
    const cubic = `${head}${'%d'.repeat(14_000)}${' '.repeat(30_000)}x\n`;
    voxelFilesOf('a.mhd', (max) => Buffer.from(cubic).subarray(0, max));
    expect(performance.now() - begun).toBeLessThan(atOnce);
  });
});

test('Reading the headers of a series stops when it is interrupted', async () => {
  const directory = await workspace();
  const files: string[] = [];
  for (let k = 0; k < 3; k += 1)
    files.push(await write(directory, `${k}.dcm`, dicomFile({ ...slice, position: [0, 0, k] })));
  const signal = AbortSignal.abort(new Error('stopped'));
  await expect(openSeries(files, path.resolve(directory), { signal })).rejects.toThrow('stopped');
});
