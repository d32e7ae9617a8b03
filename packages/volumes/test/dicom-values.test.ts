import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  dicomFile,
  type Element,
  element,
  type Frame,
  type Slice,
} from '../../../test/support/dicom-files.js';
import { openVolume, readVolume } from '../src/index.js';
import { refusalOf, workspace, write } from './written.js';

const size = [2, 2] as const;
const filled = (value: number) => Int16Array.of(value, value, value, value);
const longs = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
const double = (value: number) => Buffer.from(Float64Array.of(value).buffer);

/** Writes a series: the slices of it by their names. */
async function series(slices: readonly Partial<Slice>[]): Promise<string> {
  const directory = path.join(await workspace(), 'series');
  await mkdir(directory);
  for (const [at, slice] of slices.entries()) {
    const more = [
      element(0x00080018, 'UI', `1.2.9.${at}`),
      element(0x00200013, 'IS', String(at + 1)),
      ...(slice.more ?? []),
    ];
    await writeFile(
      path.join(directory, `${at}.dcm`),
      dicomFile({ pixels: filled(at), size, position: [0, 0, 2 * at], ...slice, more }),
    );
  }
  return directory;
}

/** The first value of each slice, volume by volume. */
async function firstValues(target: string): Promise<number[][]> {
  const volume = await readVolume(target);
  const [ni, nj, nk] = volume.size;
  return Array.from({ length: volume.frames }, (_, frame) =>
    Array.from({ length: nk }, (_k, k) => volume.data[(frame * nk + k) * ni * nj] as number),
  );
}

test('Values in a table (Modality LUT) are refused, because they are not read', async () => {
  const table = [element(0x00283002, 'US', Buffer.from([2, 0, 0, 0, 16, 0]))];
  const slice = { more: [element(0x00283000, 'SQ', [table])] };
  expect(await refusalOf(readVolume(await series([slice])))).toContain(
    'series/0.dcm has its values in a table (Modality LUT Sequence), which is not read',
  );
});

describe('Partly numeric text', () => {
  const tags: readonly (readonly [string, number, string])[] = [
    ['pixel spacing', 0x00280030, '1,25\\1,25'],
    ['position (Image Position Patient)', 0x00200032, '0\\0\\1,5'],
    ['orientation (Image Orientation Patient)', 0x00200037, '1,0\\0\\0\\0\\1\\0'],
    ['rescale slope', 0x00281053, '1,5'],
    ['rescale intercept', 0x00281052, '-1000,5'],
    ['slice thickness', 0x00180050, '2,5'],
    ['spacing between slices', 0x00180088, '2,5'],
    ['number of frames', 0x00280008, '1,0'],
    ['instance number', 0x00200013, '1,5'],
    ['rescale slope', 0x00281053, '2 mm'],
    ['rescale slope', 0x00281053, '0x10'],
    ['rescale slope', 0x00281053, '1.2.3'],
    ['rescale slope', 0x00281053, 'NaN'],
    ['echo time', 0x00180081, '4,6'],
    ['temporal position identifier', 0x00200100, '1,0'],
  ];
  test.each(tags)('A %s that is not a number is refused (%s, %s)', async (title, tag, words) => {
    const slice = (k: number): Partial<Slice> => (k === 1 ? { more: [element(tag, 'DS', words)] } : {});
    const sentence = await refusalOf(readVolume(await series([slice(0), slice(1), slice(2)])));
    expect(sentence).toContain(`series/1.dcm has '${words}' as its ${title}, which is not a number`);
  });

  test('Text that is not a number is refused in functional groups too', async () => {
    const frames: Frame[] = [0, 2].map((z) => ({
      more: [
        element(0x00209113, 'SQ', [[element(0x00200032, 'DS', z === 0 ? '0\\0\\0' : '0\\0\\2,0')]]),
        element(0x0062000a, 'SQ', [[element(0x0062000b, 'US', [1])]]),
      ],
    }));
    const pixels = Uint8Array.of(1, 1, 1, 1, 1, 1, 1, 1);
    const enhanced = await write(await workspace(), 'a.dcm', dicomFile({ pixels, size, frames }));
    expect(await refusalOf(openVolume(enhanced))).toContain("'0\\0\\2,0' as its position");
    const measures = element(0x52009229, 'SQ', [
      [
        element(0x00209116, 'SQ', [[element(0x00200037, 'DS', '1\\0\\0\\0\\1\\0')]]),
        element(0x00289110, 'SQ', [
          [
            element(0x00180050, 'DS', '2'),
            element(0x00180088, 'DS', '2,0'),
            element(0x00280030, 'DS', '1\\1'),
          ],
        ]),
      ],
    ]);
    const more = [element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.66.4'), measures];
    const placed = [0, 2].map((z) => ({ position: [0, 0, z], more: frames[0]?.more?.slice(1) ?? [] }));
    const segmentation = dicomFile({ pixels, size, frames: placed, more });
    expect(await refusalOf(openVolume(await write(await workspace(), 's.dcm', segmentation)))).toContain(
      "'2,0' as its spacing between slices",
    );
  });

  test('Numbers may have exponents, signs and blanks', async () => {
    const more = [element(0x00281053, 'DS', ' +1.5E+0 '), element(0x00281052, 'DS', '-.5')];
    const read = await readVolume(await series([{ more }, { more }]));
    expect(read.data[4]).toBe(1);
  });
});

/** Frames of an enhanced file in any order: [time, slice], with what each says of itself. */
const scrambled = [
  [1, 1],
  [0, 0],
  [1, 0],
  [0, 1],
] as const;

async function enhancedFile(
  groupsOf: (time: number, k: number) => Element[],
  more: Element[] = [],
): Promise<string> {
  const frames = scrambled.map(([time, k]) => ({ position: [0, 0, 2 * k], more: groupsOf(time, k) }));
  const pixels = Int16Array.from(scrambled.flatMap(([time, k]) => [...filled(100 * time + k)]));
  return write(await workspace(), 'enhanced.dcm', dicomFile({ pixels, size, frames, more }));
}

const content = (...elements: Element[]) => [element(0x00209111, 'SQ', [elements])];
const at = (tag: number) => Buffer.from(Uint16Array.of(tag >>> 16, tag & 0xffff).buffer);
const dimensions = (...pointers: number[]) =>
  element(
    0x00209222,
    'SQ',
    pointers.map((pointer) => [element(0x00209165, 'AT', at(pointer))]),
  );

test('Time points of a series are read one by one or all together', async () => {
  const target = await series(
    scrambled.map(([time, k]) => ({
      pixels: filled(100 * time + k),
      position: [0, 0, 2 * k],
      more: [element(0x00200100, 'IS', String(time + 1))],
    })),
  );
  const valuesOf = async (frame?: number) => {
    const read = await readVolume(target, frame === undefined ? {} : { frame });
    return [read.frames, [...read.data].filter((_, at) => at % 4 === 0)];
  };
  expect([await valuesOf(), await valuesOf(0), await valuesOf(1)]).toEqual([
    [2, [0, 1, 100, 101]],
    [1, [0, 1]],
    [1, [100, 101]],
  ]);
});

describe('The images at one position', () => {
  const right = [
    [0, 1],
    [100, 101],
  ];

  test.each<[string, (time: number, k: number) => Element[], Element[]]>([
    [
      'dimension index values',
      (time, k) => content(element(0x00209157, 'UL', longs(1, k + 1, time + 1))),
      [dimensions(0x00209056, 0x00209057, 0x20051412)],
    ],
    ['temporal position index', (time) => content(element(0x00209128, 'UL', longs(time + 1))), []],
    ['echo', (time) => [element(0x00189114, 'SQ', [[element(0x00189082, 'FD', double(2 + time))]])], []],
    ['b-value', (time) => [element(0x00189117, 'SQ', [[element(0x00189087, 'FD', double(time * 800))]])], []],
    [
      'magnitude and phase',
      (time) => [
        element(0x00189226, 'SQ', [[element(0x00089208, 'CS', time === 0 ? 'MAGNITUDE' : 'PHASE')]]),
      ],
      [],
    ],
  ])('Frames at one position are ordered by their %s', async (_, groupsOf, more) => {
    expect(await firstValues(await enhancedFile(groupsOf, more))).toEqual(right);
  });

  test.each<[string, (time: number) => Element[]]>([
    ['temporal position identifier', (time) => [element(0x00200100, 'IS', String(time + 1))]],
    ['echo time', (time) => [element(0x00180081, 'DS', String(2.5 + time))]],
    ['b-value', (time) => [element(0x00189087, 'FD', double(1000 * time))]],
    [
      'b-value, which images without diffusion lack',
      (time) => (time === 0 ? [] : [element(0x00189087, 'FD', double(1000))]),
    ],
    ['type', (time) => [element(0x00080008, 'CS', `ORIGINAL\\PRIMARY\\${time === 0 ? 'M' : 'P'}`)]],
  ])('Images at one position are ordered by their %s, not by their instance numbers', async (_, more) => {
    const files = scrambled.map(([time, k]) => ({
      position: [0, 0, 2 * k],
      pixels: filled(100 * time + k),
      more: more(time),
    }));
    expect(await firstValues(await series(files))).toEqual(right);
  });

  test('Two echoes at two time points are four volumes', async () => {
    const files = [3, 0, 2, 1, 0, 3, 1, 2].map((volume, index) => ({
      position: [0, 0, index < 4 ? 0 : 2],
      pixels: filled(10 * volume + (index < 4 ? 0 : 1)),
      more: [
        element(0x00200100, 'IS', String(1 + (volume >> 1))),
        element(0x00180081, 'DS', String(5 + 10 * (volume & 1))),
      ],
    }));
    expect(await firstValues(await series(files))).toEqual([
      [0, 1],
      [10, 11],
      [20, 21],
      [30, 31],
    ]);
  });

  test('Frames are refused if their indices and temporal positions contradict each other', async () => {
    const file = await enhancedFile(
      (time, k) =>
        content(
          element(0x00209157, 'UL', longs(k + 1, time + 1)),
          element(0x00209128, 'UL', longs(2 - time)),
        ),
      [dimensions(0x00209057, 0x00209128)],
    );
    expect(await refusalOf(openVolume(file))).toContain('contradict each other in their temporal positions');
  });

  test('Frames are refused if two positions have different time points', async () => {
    const file = await enhancedFile((time, k) =>
      content(element(0x00209128, 'UL', longs(time + 1 + (k === 1 ? 1 : 0)))),
    );
    expect(await refusalOf(openVolume(file))).toContain('contradict each other in their temporal position:');
  });

  test('Frames at one position are refused if nothing distinguishes them', async () => {
    expect(await refusalOf(openVolume(await enhancedFile(() => [])))).toContain(
      'nothing says which time point or echo they are',
    );
  });
});

describe('Rounded positions', () => {
  const rounded = (positions: readonly (readonly number[])[], digits: number, more: Element[] = []) =>
    series(
      positions.map((position) => ({
        more: [element(0x00200032, 'DS', position.map((each) => each.toFixed(digits)).join('\\')), ...more],
      })),
    );
  const straight = (step: number, without = -1) =>
    Array.from({ length: 12 }, (_, k) => [0, 0, k * step]).filter((_, k) => k !== without);

  test.each([
    [0.625, 1],
    [0.081, 2],
    [0.45, 1],
    [1.25, 1],
  ])('Slices %s mm apart are evenly spaced with positions of %i decimals', async (step, digits) => {
    const volume = await openVolume(await rounded(straight(step), digits));
    expect(volume.size[2]).toBe(12);
    expect(Math.abs(volume.affine[2][2] / step - 1)).toBeLessThan(0.02);
  });

  test('Positions rounded to whole millimetres are evenly spaced if the file gives the same distance', async () => {
    const more = [element(0x00180088, 'DS', '1.5')];
    const volume = await openVolume(await rounded(straight(1.5), 0, more));
    expect(Math.abs(volume.affine[2][2] / 1.5 - 1)).toBeLessThan(0.05);
  });

  test.each([
    [0.625, 1, 1],
    [0.625, 1, 6],
    [0.081, 2, 10],
    [1.25, 1, 5],
  ])('Slices of %s mm with %i decimals do not hide that %i is missing', async (step, digits, missing) => {
    const more = [element(0x00180050, 'DS', String(step))];
    expect(await refusalOf(openVolume(await rounded(straight(step, missing), digits, more)))).toContain(
      'a slice is missing',
    );
  });

  test('Rounded positions of an oblique series are not mistaken for a tilted gantry, and a real tilt is kept', async () => {
    const [c, s] = [Math.cos(0.3), Math.sin(0.3)];
    const orientation = element(
      0x00200037,
      'DS',
      [1, 0, 0, 0, c, -s].map((each) => each.toFixed(6)).join('\\'),
    );
    const oblique = straight(0.625).map(([, , z = 0]) => [0, z * s, z * c]);
    expect((await openVolume(await rounded(oblique, 1, [orientation]))).size[2]).toBe(12);
    const tilted = straight(0.625).map(([, , z = 0]) => [0, 0.2 * z, z]);
    const { affine } = await openVolume(await rounded(tilted, 1));
    // From slice to slice to the back, as DICOM counts, and upwards.
    expect([affine[1][2], affine[2][2]]).toEqual([expect.closeTo(-0.125, 1), expect.closeTo(0.625, 1)]);
  });
});

describe('A nuclear medicine volume', () => {
  const shorts = (tag: number, values: readonly number[]) => element(tag, 'US', values);
  const spect = async (order: readonly number[], more: Element[]) => {
    const pixels = Int16Array.from(order.flatMap((k) => [...filled(k)]));
    const all = [
      element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.20'),
      element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY\\RECON TOMO\\EMISSION'),
      element(0x00080060, 'CS', 'NM'),
      element(0x00280008, 'IS', String(order.length)),
      element(0x00540022, 'SQ', [
        [element(0x00200032, 'DS', '1\\2\\30'), element(0x00200037, 'DS', '1\\0\\0\\0\\1\\0')],
      ]),
      shorts(
        0x00540080,
        order.map((k) => k + 1),
      ),
      ...more,
    ];
    return write(await workspace(), 'nm.dcm', dicomFile({ pixels, size, more: all }));
  };

  test.each([
    [3, [0, 1, 2], 30],
    [-3, [2, 1, 0], 24],
  ])(
    'A nuclear medicine volume with steps of %i mm lies where its detector says',
    async (spacing, values, lowest) => {
      const file = await spect([1, 0, 2], [element(0x00180088, 'DS', String(spacing))]);
      const volume = await openVolume(file);
      expect(volume.affine.map((row) => row.slice(2))).toEqual([
        [0, -1],
        [0, -2],
        [3, lowest],
      ]);
      expect(await firstValues(file)).toEqual([values]);
    },
  );

  test('A gated nuclear medicine file has a volume for each time slot', async () => {
    const gates = [shorts(0x00540070, [2, 1, 1, 2]), element(0x00180088, 'DS', '3')];
    const file = await spect([0, 1, 0, 1], gates);
    const volume = await readVolume(file);
    expect(volume.frames).toBe(2);
    expect(await firstValues(file)).toEqual([
      [0, 1],
      [0, 1],
    ]);
  });

  test('A nuclear medicine volume without a spacing is refused', async () => {
    expect(await refusalOf(openVolume(await spect([0, 1], [])))).toContain('no spacing between slices');
  });
});

test('A MONOCHROME1 series is inverted, and cannot be mixed with MONOCHROME2', async () => {
  const inverted = [element(0x00280004, 'CS', 'MONOCHROME1')];
  expect(await openVolume(await series([{ more: inverted }, { more: inverted }]))).toMatchObject({
    isInverted: true,
  });
  expect(await refusalOf(openVolume(await series([{ more: inverted }, {}])))).toContain(
    'differ in their colours',
  );
});
