import { appendFile, copyFile, mkdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { dicomFile, type Encoding, element, type Slice } from '../../../test/support/dicom-files.js';
import { temporary } from '../../../test/support/temporary.js';
import { openDicom, openVolume, type VolumeFile, type Voxels } from '../src/index.js';

const [columns, rows, count] = [6, 4, 5];
const plane = columns * rows;
const valueAt = (k: number, at: number) => k * 100 + at - 50;
const pixelsOf = (k: number) => Int16Array.from({ length: plane }, (_, at) => valueAt(k, at));
const nameOf = (k: number) => `slice_${k}.dcm`;
const positionOf = (k: number) => [-100, -90, -80 + 3 * k];

const sliceOf = (k: number, given: Partial<Slice> = {}): Slice => ({
  pixels: pixelsOf(k),
  size: [columns, rows],
  spacing: [2, 1.5],
  position: positionOf(k),
  ...given,
});

async function workspace(): Promise<string> {
  const directory = await temporary();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  return directory.path;
}

/** Writes slices into a directory; `change` says what is different about one, and how it is written. */
async function writeSeries(change: (k: number) => [Partial<Slice>, Encoding?] = () => [{}]): Promise<string> {
  const directory = path.join(await workspace(), 'series');
  await mkdir(directory);
  for (let k = 0; k < count; k += 1) {
    const [given, encoding] = change(k);
    await writeFile(path.join(directory, nameOf(k)), dicomFile(sliceOf(k, given), encoding));
  }
  return directory;
}

async function writeFileOf(slice: Slice, encoding?: Encoding, name = 'one.dcm'): Promise<string> {
  const file = path.join(await workspace(), name);
  await writeFile(file, dicomFile(slice, encoding));
  return file;
}

async function valuesOf(volume: VolumeFile, frame = 0): Promise<Voxels[]> {
  const all: Voxels[] = [];
  for await (const { k, values } of volume.slices({ frame })) {
    expect(k).toBe(all.length);
    all.push(values.slice());
  }
  return all;
}

async function firstOf(file: string): Promise<Voxels> {
  const [values] = await valuesOf(await openVolume(file));
  if (!values) throw new Error('There is no slice.');
  return values;
}

const refusalOf = (target: string): Promise<string> =>
  openDicom(target).then(
    () => 'not refused',
    (error: Error) => {
      expect(error.name).toBe('VolumeError');
      return error.message;
    },
  );

/** The whole series, as every way to write it must be read. */
async function expectSeries(target: string): Promise<void> {
  const volume = await openVolume(target);
  expect(volume).toMatchObject({
    format: 'DICOM',
    size: [columns, rows, count],
    components: 1,
    frames: 1,
    modality: 'MR',
    hasOrientation: true,
    affine: straight([-1.5, -2, 3], [100, 90, -80]),
  });
  expect(await valuesOf(volume)).toEqual(Array.from({ length: count }, (_, k) => pixelsOf(k)));
}

describe('A series', () => {
  test.each<[string, Encoding]>([
    ['explicit', {}],
    ['implicit', { isImplicit: true }],
    ['big endian', { isBig: true }],
    ['deflated', { isDeflated: true }],
    ['without preamble', { hasPreamble: false }],
    ['without preamble and meta information', { hasPreamble: false, hasMeta: false }],
    ['without these and value representations', { hasPreamble: false, hasMeta: false, isImplicit: true }],
    ['without these, big endian', { hasPreamble: false, hasMeta: false, isBig: true }],
  ])('A series is read with all its slices if some are %s', async (_, encoding) => {
    await expectSeries(await writeSeries((k) => (k % 2 === 1 ? [{}, encoding] : [{}])));
  });

  test('A series is placed by its positions, whatever its file names and orientation', async () => {
    const directory = await writeSeries((k) => [
      { position: [7, 20 - 4 * k, 9], orientation: [0, 0, -1, 1, 0, 0] },
    ]);
    const volume = await openDicom(directory);
    // Rows run down, columns to the left; the normal of these points to the front, where the first file is.
    expect(volume.affine).toEqual([
      [0, -2, 0, -7],
      [0, 0, 4, -20],
      [-1.5, 0, 0, 9],
    ]);
    expect(await valuesOf(volume)).toEqual([0, 1, 2, 3, 4].map(pixelsOf));
  });

  test('Each slice is scaled by its own slope and intercept', async () => {
    const directory = await writeSeries((k) => [{ slope: k + 1, intercept: -3 * k }]);
    const expected = Array.from({ length: count }, (_, k) =>
      Float32Array.from(pixelsOf(k), (value) => value * (k + 1) - 3 * k),
    );
    expect(await valuesOf(await openDicom(directory))).toEqual(expected);
  });

  test('Only the requested slices are read', async () => {
    const volume = await openDicom(await writeSeries());
    // The others are gone: they cannot have been read.
    for (const k of [0, 2, 4]) await rm(path.join(volume.path, nameOf(k)));
    const read: number[] = [];
    for await (const { k, values } of volume.slices({ only: [1, 3] })) {
      expect(values).toEqual(pixelsOf(k));
      read.push(k);
    }
    expect(read).toEqual([1, 3]);
  });

  test('Files and bytes that a series ignores are reported', async () => {
    const directory = await writeSeries();
    await writeFile(path.join(directory, 'notes.txt'), 'Patient moved.');
    await writeFile(path.join(directory, 'DICOMDIR'), '');
    await mkdir(path.join(directory, 'older'));
    await appendFile(path.join(directory, nameOf(3)), Buffer.alloc(50));
    const leftOut: string[] = [];
    const volume = await openDicom(directory, { onLeftOut: (sentence) => leftOut.push(sentence) });
    expect(leftOut.sort()).toEqual([
      'notes.txt is not a slice and is ignored',
      'older is not a slice and is ignored',
      'slice_3.dcm: 50 bytes after the pixel data are ignored',
    ]);
    expect(volume.size).toEqual([columns, rows, count]);
  });

  test('A series may have rounded positions', async () => {
    const directory = await writeSeries((k) => [
      { position: [-100, -90, -80 + 3 * k + (k === 2 ? 0.03 : 0)] },
    ]);
    await expectSeries(directory);
  });

  test('Several images at each position become frames, in the order of their instance numbers', async () => {
    const directory = await writeSeries();
    for (let k = 0; k < count; k += 1)
      for (const time of [0, 1, 2]) {
        const more = [
          element(0x00080018, 'UI', `1.2.${k}.${time}`),
          element(0x00200013, 'IS', String(1 + k + count * time)),
        ];
        const pixels = pixelsOf(k).map((value) => value + 1000 * time);
        const name = time === 0 ? nameOf(k) : `a${9 - time}_${nameOf(k)}`;
        await writeFile(path.join(directory, name), dicomFile(sliceOf(k, { more, pixels })));
      }
    const volume = await openDicom(directory);
    expect(volume).toMatchObject({ frames: 3, size: [columns, rows, count] });
    for (const time of [0, 1, 2])
      expect(await valuesOf(volume, time)).toEqual(
        Array.from({ length: count }, (_, k) => pixelsOf(k).map((value) => value + 1000 * time)),
      );
  });
});

describe('An enhanced file', () => {
  const order = [3, 0, 4, 1, 2];
  const enhanced = (slopeOf: (k: number) => number = () => 1, hasPositions = true): Slice => ({
    pixels: Int16Array.from(order.flatMap((k) => [...pixelsOf(k)].map((value) => value / slopeOf(k)))),
    size: [columns, rows],
    spacing: [2, 1.5],
    frames: order.map((k) => ({ ...(hasPositions && { position: positionOf(k) }), slope: slopeOf(k) })),
  });

  test.each<[string, Encoding]>([
    ['explicit', {}],
    ['implicit', { isImplicit: true }],
    ['big endian', { isBig: true }],
  ])('The frames of an enhanced file are placed by their positions (%s)', async (_, encoding) => {
    await expectSeries(await writeFileOf(enhanced(), encoding));
  });

  test('Each frame of an enhanced file is scaled by its own slope', async () => {
    const file = await writeFileOf(enhanced((k) => (k % 2 === 0 ? 0.5 : 0.25)));
    const expected = Array.from({ length: count }, (_, k) => Float32Array.from(pixelsOf(k)));
    expect(await valuesOf(await openVolume(file))).toEqual(expected);
  });

  test('An enhanced file may have a header of several megabytes', async () => {
    const more = [element(0x00190010, 'OB', Buffer.alloc(3_000_000, 7))];
    await expectSeries(await writeFileOf({ ...enhanced(), more }));
  });

  test('An enhanced file without positions is refused rather than read with 1 mm spacing', async () => {
    const file = await writeFileOf(enhanced(undefined, false), {}, 'lost.dcm');
    expect(await refusalOf(file)).toContain('frame 1 of lost.dcm has no position');
  });
});

describe('Pixels', () => {
  const placed = { size: [columns, rows] as const, position: [0, 0, 0] };
  const thick = element(0x00180050, 'DS', '2');
  const stored = (bits: number, high: number, isSigned: boolean) => [
    thick,
    element(0x00280101, 'US', [bits]),
    element(0x00280102, 'US', [high]),
    element(0x00280103, 'US', [isSigned ? 1 : 0]),
  ];
  const ramp = <Data>(from: (values: Iterable<number>) => Data, step: number, start = 0): Data =>
    from(Array.from({ length: plane }, (_, at) => start + at * step));

  test.each<[string, Slice['pixels']]>([
    ['8 bits', ramp((values) => Uint8Array.from(values), 11)],
    ['8 signed bits', ramp((values) => Int8Array.from(values), 11, -128)],
    ['16 bits', ramp((values) => Uint16Array.from(values), 2800)],
    ['16 signed bits', ramp((values) => Int16Array.from(values), 2800, -32768)],
    ['32 bits', ramp((values) => Uint32Array.from(values), 180_000_000)],
    ['32 signed bits', ramp((values) => Int32Array.from(values), 180_000_000, -2_147_483_648)],
  ])('Pixels of %s are read in both byte orders', async (_, pixels) => {
    for (const isBig of [false, true])
      expect(await firstOf(await writeFileOf({ ...placed, pixels, more: [thick] }, { isBig }))).toEqual(
        pixels,
      );
  });

  test('12-bit pixels keep their sign and drop the unused bits', async () => {
    const values = ramp((list) => Int16Array.from(list), 170, -2048);
    const dirty = Uint16Array.from(values, (value, at) => (value & 0xfff) | ((at % 16) << 12));
    const low = await writeFileOf({ ...placed, pixels: dirty, more: stored(12, 11, true) });
    expect(await firstOf(low)).toEqual(values);
    const high = Uint16Array.from(values, (value, at) => ((value & 0xfff) << 4) | (at % 16));
    expect(await firstOf(await writeFileOf({ ...placed, pixels: high, more: stored(12, 15, true) }))).toEqual(
      values,
    );
    const positive = await firstOf(
      await writeFileOf({ ...placed, pixels: dirty, more: stored(12, 11, false) }),
    );
    expect(positive).toEqual(Uint16Array.from(values, (value) => value & 0xfff));
  });

  test.each([
    ['x7fe00008', 0x7fe00008, 'OF', Float32Array],
    ['x7fe00009', 0x7fe00009, 'OD', Float64Array],
  ] as const)('Floating-point pixels (%s) are read unchanged', async (_, tag, form, Kind) => {
    const values = new Kind(Array.from({ length: plane }, (_each, at) => at / 7 - 1));
    const bits = Kind.BYTES_PER_ELEMENT * 8;
    const file = dicomFile(
      {
        ...placed,
        pixels: new Uint8Array(plane),
        more: [thick, element(0x00280100, 'US', [bits]), element(tag, form, Buffer.from(values.buffer))],
      },
      { packed: { syntax: '1.2.840.10008.1.2.1', fragments: [] } },
    );
    // The file ends after these: it has no other pixels.
    const target = path.join(await workspace(), 'float.dcm');
    await writeFile(target, file.subarray(0, file.lastIndexOf(Buffer.from('e07f10004f42', 'hex'))));
    expect(await firstOf(target)).toEqual(values);
  });

  const colours = (photometric: string, more: Slice['more'] = []) => [
    thick,
    element(0x00280002, 'US', [3]),
    element(0x00280004, 'CS', photometric),
    element(0x00280006, 'US', [0]),
    ...more,
  ];
  const rgb = Uint8Array.from({ length: plane * 3 }, (_, at) => (at * 37) % 256);

  test('Colours are returned pixel by pixel, even if they are stored as planes', async () => {
    const file = await writeFileOf({ ...placed, pixels: rgb, more: colours('RGB') });
    expect(await openVolume(file)).toMatchObject({ components: 3, size: [columns, rows, 1] });
    expect(await firstOf(file)).toEqual(rgb);
    const planes = Uint8Array.from(rgb, (_, at) => rgb[(at % plane) * 3 + Math.floor(at / plane)] ?? 0);
    const more = colours('RGB', [element(0x00280006, 'US', [1])]);
    expect(await firstOf(await writeFileOf({ ...placed, pixels: planes, more }))).toEqual(rgb);
  });

  test('YBR pixels become RGB', async () => {
    const pixels = Uint8Array.from({ length: plane * 3 }, (_, at) => [76, 85, 255][at % 3] ?? 0);
    const full = await firstOf(await writeFileOf({ ...placed, pixels, more: colours('YBR_FULL') }));
    expect([...full.slice(0, 3)]).toEqual([254, 0, 0]);
    const half = Uint8Array.from({ length: plane * 2 }, (_, at) => [76, 76, 85, 255][at % 4] ?? 0);
    expect(
      await firstOf(await writeFileOf({ ...placed, pixels: half, more: colours('YBR_FULL_422') })),
    ).toEqual(full);
  });

  test('Palette indices become colours', async () => {
    const pixels = Uint8Array.from({ length: plane }, (_, at) => at % 4);
    const table = (values: number[]) => Buffer.from(Uint16Array.from(values, (value) => value * 257).buffer);
    const more = [
      thick,
      element(0x00280004, 'CS', 'PALETTE COLOR'),
      ...[1, 2, 3].map((colour) => element(0x00281100 + colour, 'US', [3, 1, 16])),
      element(0x00281201, 'OW', table([10, 20, 30])),
      element(0x00281202, 'OW', table([40, 50, 60])),
      element(0x00281203, 'OW', table([70, 80, 90])),
    ];
    const file = await writeFileOf({ ...placed, pixels, more });
    // The palette begins with 1: what is below has its first colour.
    expect([...(await firstOf(file)).slice(0, 12)]).toEqual([10, 40, 70, 10, 40, 70, 20, 50, 80, 30, 60, 90]);
  });

  test('An image without a position is read by itself, without an orientation', async () => {
    const more = [element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.7'), element(0x00280008, 'IS', '2')];
    const pixels = Int16Array.from([...pixelsOf(0), ...pixelsOf(1)]);
    const bytes = dicomFile({ size: [columns, rows], pixels, spacing: [], more });
    // Without the element of the orientation, which is written everywhere.
    const at = bytes.indexOf(Buffer.from('200037004453', 'hex'));
    const target = path.join(await workspace(), 'capture.dcm');
    const length = 8 + bytes.readUInt16LE(at + 6);
    await writeFile(target, Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]));
    const volume = await openVolume(target);
    expect(volume).toMatchObject({ hasOrientation: false, size: [columns, rows, 1], frames: 2 });
    expect(await valuesOf(volume, 1)).toEqual([pixelsOf(1)]);
  });
});

const [unreadable, noImage] = [
  'which cannot be read here: convert it to NIfTI.',
  'holds no image or is cut short',
];
describe('Refused files', () => {
  /** Rows and columns, frames, bits, samples and colours. */
  const more = (given: {
    rows?: number;
    columns?: number;
    frames?: string;
    bits?: number;
    colours?: string;
  }) => [
    element(0x00280008, 'IS', given.frames ?? '1'),
    element(0x00280010, 'US', [given.rows ?? rows]),
    element(0x00280011, 'US', [given.columns ?? columns]),
    element(0x00280100, 'US', [given.bits ?? 16]),
    element(0x00280002, 'US', [/^(RGB|HSV|YBR)/.test(given.colours ?? '') ? 3 : 1]),
    element(0x00280004, 'CS', given.colours ?? 'MONOCHROME2'),
  ];
  test.each<[string, Parameters<typeof more>[0], string]>([
    ['no rows', { rows: 0 }, noImage],
    ['no bits', { bits: 0 }, noImage],
    ['no frames', { frames: '0' }, noImage],
    ['half a frame', { frames: '1.5' }, 'says that it has 1.5 frames, more than are read'],
    ['unknown colours', { bits: 8, colours: 'HSV' }, `3 values in a pixel (HSV), ${unreadable}`],
    ['bits of no type', { bits: 12 }, `12 bits in a value, ${unreadable}`],
    ['integers of 64 bits', { bits: 64 }, `64 bits in a value, ${unreadable}`],
    ['YBR of 16 bits', { colours: 'YBR_FULL' }, `colours (YBR_FULL) of 16 bits, ${unreadable}`],
    ['colours of one bit', { bits: 1, colours: 'RGB' }, `colours of one bit, ${unreadable}`],
    ['too few bytes', { rows: rows + 1 }, 'its header says 60 bytes of pixels, and it has 48'],
    ['no palette', { bits: 8, colours: 'PALETTE COLOR' }, 'has no complete palette: convert it to RGB.'],
  ])('A file is refused with %s', async (_, given, sentence) => {
    const file = await writeFileOf(sliceOf(0, { more: more(given) }));
    expect(await refusalOf(file)).toContain(sentence);
  });

  test('A file is refused if its compressed pixels have an uncompressed transfer syntax', async () => {
    const packed = { syntax: '1.2.840.10008.1.2.1', fragments: [Buffer.alloc(8)] };
    const file = await writeFileOf(sliceOf(0), { packed });
    expect(await refusalOf(file)).toContain('compressed pixels that do not say how they are compressed');
  });
});

test('The frames of a dose are placed along the normal at their offsets, and use the scale of the dose', async () => {
  const more = [
    element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.481.2'),
    element(0x00280008, 'IS', '3'),
    element(0x3004000c, 'DS', '5\\8\\11'),
    element(0x3004000e, 'DS', '0.5'),
  ];
  const pixels = Int16Array.from([0, 1, 2].flatMap((k) => [...pixelsOf(k)]));
  const position = [1, 2, 3];
  // A slope beside the scale of the dose would count first.
  const bytes = dicomFile(sliceOf(0, { pixels, position, orientation: [0, 1, 0, 0, 0, 1], more }));
  for (const tag of ['28005210', '28005310'])
    bytes.write('01', bytes.indexOf(Buffer.from(tag, 'hex')) + 3, 'hex');
  const target = path.join(await workspace(), 'dose.dcm');
  await writeFile(target, bytes);
  const volume = await openVolume(target);
  expect(volume.affine.map((row) => row.slice(2))).toEqual([
    [-3, -1],
    [0, -2],
    [0, 3],
  ]);
  expect(await valuesOf(volume, 0)).toEqual(
    [0, 1, 2].map((k) => Float32Array.from(pixelsOf(k), (each) => each / 2)),
  );
});

describe('Compressed pixels', () => {
  const rle = '1.2.840.10008.1.2.5';
  /** Both bytes of each value, without runs. */
  function packed(values: Int16Array): Buffer {
    const bytes = Buffer.from(values.slice().buffer);
    const literal = (odd: number) =>
      Buffer.from([values.length - 1, ...bytes.filter((_, at) => at % 2 === odd)]);
    const [high, low] = [literal(1), literal(0)];
    const head = Buffer.alloc(64);
    head.writeUInt32LE(2, 0);
    head.writeUInt32LE(64, 4);
    head.writeUInt32LE(64 + high.length, 8);
    return Buffer.concat([head, high, low, Buffer.alloc((high.length + low.length) % 2)]);
  }

  test('RLE pixels are unpacked, even from several fragments', async () => {
    await expectSeries(
      await writeSeries((k) => {
        const whole = packed(pixelsOf(k));
        const fragments = k === 2 ? [whole.subarray(0, 70), whole.subarray(70)] : [whole];
        return [{}, { packed: { syntax: rle, fragments } }];
      }),
    );
  });

  test('Compressed frames are separated by their number, or by the offset table', async () => {
    const frames = [0, 1, 2].map((k) => ({ position: positionOf(k) }));
    const slice = { ...sliceOf(0), frames };
    const parts = [0, 1, 2].map((k) => packed(pixelsOf(k)));
    const expected = [0, 1, 2].map(pixelsOf);
    const one = await writeFileOf(slice, { packed: { syntax: rle, fragments: parts } });
    expect(await valuesOf(await openVolume(one))).toEqual(expected);
    const halves = parts.flatMap((part) => [part.subarray(0, 80), part.subarray(80)]);
    const length = (parts[0]?.length ?? 0) + 16;
    const table = [0, length, 2 * length];
    const two = await writeFileOf(slice, { packed: { syntax: rle, fragments: halves, table } });
    expect(await valuesOf(await openVolume(two))).toEqual(expected);
    const three = await writeFileOf(slice, { packed: { syntax: rle, fragments: halves } });
    await expect(openVolume(three).then(valuesOf)).rejects.toThrow('does not say where its 3 frames begin');
  });

  test('Damaged compressed pixels are refused with the name of the file', async () => {
    const fragments = [packed(pixelsOf(0)).subarray(0, 80)];
    const more = [element(0x00180050, 'DS', '2')];
    const file = await writeFileOf(sliceOf(0, { more }), { packed: { syntax: rle, fragments } });
    await expect(openVolume(file).then(valuesOf)).rejects.toThrow(
      'The compressed pixels of one.dcm are damaged: copy it again',
    );
  });
});

const slice = (k: number) => `series/${nameOf(k)}`;
describe('A series', () => {
  test.each<[string, (file: (k: number) => string) => Promise<void>, string[]]>([
    [
      'if the pixel data of a slice are cut',
      async (file) => truncate(file(4), (await stat(file(4))).size - 10),
      [slice(4), 'is cut short or damaged: copy it again'],
    ],
    [
      'if the header of a slice promises more pixels',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { pixels: new Int16Array(plane - 10) }))),
      [slice(4), 'is cut short: its header says 48 bytes of pixels, and it has 28.'],
    ],
    [
      'if the compressed pixel data of a slice are cut',
      (file) => writeFile(file(4), dicomFile(sliceOf(4), { isCompressed: true }).subarray(0, -20)),
      [slice(4), 'is cut short or damaged'],
    ],
    [
      'if deflated bytes of a slice are cut',
      (file) => writeFile(file(4), dicomFile(sliceOf(4), { isDeflated: true }).subarray(0, -20)),
      [slice(4), 'is cut short or damaged'],
    ],
    [
      'if a file is not a slice',
      (file) => writeFile(file(4), Buffer.alloc(100)),
      [slice(4), 'is not a DICOM slice, or is cut short: remove it'],
    ],
    [
      'if a slice is missing',
      (file) => rm(file(3)),
      [slice(2), slice(4), 'are 6.00 mm, between other slices 3.00 mm: a slice is missing'],
    ],
    [
      'if a slice is there twice',
      (file) => copyFile(file(4), `${file(4)}.copy`),
      [slice(4), `${slice(4)}.copy`, 'lie at the same place: take out the copy'],
    ],
    [
      'if each slice is there twice',
      async (file) => {
        for (let k = 0; k < count; k += 1) await copyFile(file(k), `${file(k)}.copy`);
      },
      [slice(0), `${slice(0)}.copy`, 'lie at the same place: take out the copy'],
    ],
    [
      'if a slice has other rows and columns',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { pixels: new Int16Array(600), size: [20, 30] }))),
      [slice(0), slice(4), 'differ in rows or columns (6 4 against 20 30)'],
    ],
    [
      'if a slice is turned',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { orientation: [1, 0, 0, 0, 0, -1] }))),
      [slice(0), slice(4), 'differ in orientation'],
    ],
    [
      'if a slice has another pixel spacing',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { spacing: [8, 9] }))),
      [slice(0), slice(4), 'differ in pixel spacing (2 1.5 against 8 9)'],
    ],
    [
      'if a slice has no position',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { position: undefined }))),
      [slice(4), 'has no position'],
    ],
    [
      'if a slice has invalid directions',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { orientation: [0, 0, 0, 0, 0, 0] }))),
      [slice(4), 'has no orientation'],
    ],
    [
      'if a slice has no pixel spacing',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { spacing: [] }))),
      [slice(4), 'has no pixel spacing'],
    ],
    [
      'if the pixels of a slice have no width',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { spacing: [0, 1.5] }))),
      [slice(4), 'has no pixel spacing'],
    ],
    [
      'if a slice is of another series',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { series: '1.2.9' }))),
      ['series holds more than one DICOM series', slice(0), slice(4), 'its own directory'],
    ],
    [
      'if a slice is of another patient, under the UID of the same series',
      (file) => writeFile(file(4), dicomFile(sliceOf(4, { more: [element(0x00100020, 'LO', 'other')] }))),
      ['series holds more than one DICOM series', slice(0), slice(4), 'its own directory'],
    ],
    [
      'if an image lies beside another',
      (file) => writeFile(`${file(4)}.too`, dicomFile(sliceOf(4, { position: [100, -90, -68] }))),
      [slice(4), `${slice(4)}.too`, 'lie beside each other in one plane'],
    ],
    [
      'if its slices lie side by side in one picture',
      (file) => {
        const more = [element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY\\M\\MOSAIC')];
        return writeFile(file(4), dicomFile(sliceOf(4, { more })));
      },
      [slice(4), 'a mosaic'],
    ],
    [
      'if a slice is packed',
      async (file) => writeFile(file(4), gzipSync(await readFile(file(4)))),
      [slice(4), 'is packed with gzip: unpack it first'],
    ],
    [
      'if it is a single slice without a thickness',
      async (file) => {
        for (const k of [0, 1, 2, 3]) await rm(file(k));
      },
      [slice(4), 'is a single slice and has no thickness'],
    ],
    [
      'if it has no slices',
      async (file) => {
        for (let k = 0; k < count; k += 1) await rm(file(k));
      },
      ['series holds no DICOM slices.'],
    ],
  ])('A series is refused with the names of its files %s', async (_, damage, parts) => {
    const directory = await writeSeries();
    await damage((k) => path.join(directory, nameOf(k)));
    const sentence = await refusalOf(directory);
    for (const part of parts) expect(sentence).toContain(part);
  });

  test('A series is refused if it does not exist', async () => {
    expect(await refusalOf(path.join(await workspace(), 'nothing'))).toContain(
      'nothing cannot be read (ENOENT',
    );
  });

  test('A series is refused if a slice is offset from the others', async () => {
    const directory = await writeSeries((k) => [{ position: [-100, k === 3 ? -89.5 : -90, -80 + 3 * k] }]);
    expect(await refusalOf(directory)).toContain(
      'slice_3.dcm lies beside the line from series/slice_0.dcm to',
    );
  });

  test('A series is refused if a slice is too close to the previous one', async () => {
    const directory = await writeSeries((k) => [
      { position: [-100, -90, -80.25 + 3 * k - (k === count - 1 ? 1.5 : 0)] },
    ]);
    expect(await refusalOf(directory)).toContain('are 1.50 mm, between other slices 3.00 mm');
  });

  test('A series is refused if the slices of a tilted gantry are shifted unevenly', async () => {
    const directory = await writeSeries((k) => [{ position: [-100, -90 + 0.1 * k * k, -80 + 3 * k] }]);
    expect(await refusalOf(directory)).toContain('slice_1.dcm lies beside the line');
  });
});
