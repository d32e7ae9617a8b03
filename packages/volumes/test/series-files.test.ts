import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { dicomFile, type Element, element, type Slice } from '../../../test/support/dicom-files.js';
import { isDicom } from '../src/dicom.js';
import { openDicom, openVolume, readSourceSeries, VolumeError } from '../src/index.js';
import { maskOn, writeSeries } from './study.js';
import { bytesOf, lines, refusalOf, workspace, write } from './written.js';

const slice: Slice = { pixels: Int16Array.of(1, 2, 3, 4), size: [2, 2], position: [0, 0, 0] };
const thick = element(0x00180050, 'DS', '2');
const fileOf = async (given: Partial<Slice> = {}, name = 'a.dcm') =>
  write(await workspace(), name, dicomFile({ ...slice, ...given }));
const firstOf = async (file: string) => {
  for await (const { values } of (await openVolume(file)).slices()) return [...values];
  return [];
};

test('A file is recognised as DICOM by its content or its name', () => {
  const begun = dicomFile(slice);
  expect(isDicom('a', begun)).toBe(true);
  const names = ['a.dcm', 'a.DICOM', 'a.ima', 'a.dcm.gz', 'dcm', 'a.nii'];
  expect(names.map((name) => isDicom(name, Buffer.alloc(0)))).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
});

test('Every file of a directory is a slice unless its name says otherwise', async () => {
  const directory = await workspace();
  const endings = ['txt', 'md', 'json', 'xml', 'htm', 'HTML', 'csv', 'tsv', 'pdf', 'log', 'ini', 'inf'];
  const others = [...endings.map((ending) => `notes.${ending}`), 'Thumbs.db'];
  for (const name of [...others, '.hidden', 'dicomdir']) await write(directory, name, 'text');
  await mkdir(path.join(directory, 'below'));
  for (const [z, name] of ['IM2', 'IM1', 'txt'].entries())
    await write(directory, name, dicomFile({ ...slice, position: [0, 0, z] }));
  const told: string[] = [];
  const volume = await openDicom(directory, { onLeftOut: (sentence) => told.push(sentence) });
  expect(volume.size).toEqual([2, 2, 3]);
  expect(told.sort()).toEqual(
    [...others, 'below'].map((name) => `${name} is not a slice and is ignored`).sort(),
  );
});

test('A file without file meta information is read by what its elements look like', async () => {
  const bare = { hasPreamble: false, hasMeta: false };
  const more = [element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.4'), thick];
  for (const encoding of [{}, { isBig: true }, { isImplicit: true }]) {
    const bytes = dicomFile({ ...slice, more }, { ...bare, ...encoding });
    expect(await firstOf(await write(await workspace(), 'a.dcm', bytes))).toEqual([1, 2, 3, 4]);
  }
  // Nor does it say anything where the syntax is empty.
  const whole = dicomFile({ ...slice, more: [thick] });
  const at = whole.indexOf('1.2.840.10008.1.2.1\0');
  whole.writeUInt16LE(0, at - 2);
  whole.writeUInt32LE(whole.readUInt32LE(140) - 20, 140);
  const empty = Buffer.concat([whole.subarray(0, at), whole.subarray(at + 20)]);
  expect(await firstOf(await write(await workspace(), 'a.dcm', empty))).toEqual([1, 2, 3, 4]);
});

describe('DICOM values', () => {
  test.each<[string, Element[], number[]]>([
    ['unscaled', [], [1, 2, 3, 4]],
    ['scaled', [element(0x00281053, 'DS', '2'), element(0x00281052, 'DS', '-1')], [1, 3, 5, 7]],
    ['with an intercept alone', [element(0x00281052, 'DS', '5')], [6, 7, 8, 9]],
    [
      'with the scale of a dose',
      [element(0x3004000e, 'DS', '0.5'), element(0x00281053, 'DS', '')],
      [0.5, 1, 1.5, 2],
    ],
    [
      'with the rescale slope of a dose that has one',
      [element(0x3004000e, 'DS', '0.5'), element(0x00281053, 'DS', '2')],
      [2, 4, 6, 8],
    ],
  ])('DICOM values are read %s', async (_, more, values) => {
    expect(await firstOf(await fileOf({ more: [thick, ...more] }))).toEqual(values);
  });

  test('DICOM colours are not scaled', async () => {
    const more = [
      thick,
      element(0x00280002, 'US', [3]),
      element(0x00280004, 'CS', 'RGB'),
      element(0x00281053, 'DS', '2'),
    ];
    const pixels = Uint8Array.from({ length: 12 }, (_, at) => at);
    expect(await firstOf(await fileOf({ pixels, more }))).toEqual([...pixels]);
  });

  test.each<[Element[], string | null]>([
    [[element(0x00080060, 'CS', 'CT')], 'HU'],
    [[element(0x00080060, 'CS', 'CT'), element(0x00281054, 'LO', 'HU ')], 'HU'],
    [[element(0x00080060, 'CS', 'CT'), element(0x00281054, 'LO', 'US')], null],
    [[element(0x00080060, 'CS', 'MR'), element(0x00281054, 'LO', 'HU')], null],
  ])('CT values are Hounsfield units unless the file names another unit (%#)', async (more, unit) => {
    expect((await openVolume(await fileOf({ more: [thick, ...more] }))).unit).toBe(unit);
  });

  test('A series with images of different types has floating-point values and no unit', async () => {
    const ct = element(0x00080060, 'CS', 'CT');
    const directory = await workspace();
    await write(directory, 'a', dicomFile({ ...slice, more: [ct] }));
    await write(
      directory,
      'b',
      dicomFile({ ...slice, position: [0, 0, 1], pixels: Uint16Array.of(1, 2, 3, 65_535), more: [] }),
    );
    const volume = await openDicom(directory);
    expect([volume.unit, volume.modality, volume.isInverted, volume.frames]).toEqual([null, 'CT', false, 1]);
    const all: unknown[] = [];
    for await (const { values } of volume.slices()) all.push(values.slice());
    expect(all).toEqual([Float32Array.of(1, 2, 3, 4), Float32Array.of(1, 2, 3, 65_535)]);
    for (const choice of [{ only: [2] }, { frame: 1 }])
      await expect(volume.slices(choice).next()).rejects.toThrow(RangeError);
  });
});

test('An image without a position has the pixel size that it gives, or one millimetre', async () => {
  const placeless = async (...more: Element[]) => {
    const without = [element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.7'), element(0x00200037, 'DS', '')];
    const file = await fileOf({ position: undefined, spacing: [], more: [...without, ...more] });
    const { hasOrientation, affine } = await openVolume(file);
    expect(hasOrientation).toBe(false);
    return affine.map((row, axis) => row[axis]);
  };
  expect(await placeless()).toEqual([-1, -1, 1]);
  expect(await placeless(element(0x00181164, 'DS', '3\\4'), thick)).toEqual([-4, -3, 2]);
  expect(await placeless(element(0x00181164, 'DS', '3\\4'), element(0x00280030, 'DS', '5\\6'))).toEqual([
    -6, -5, 1,
  ]);
  for (const more of [[thick], [thick, element(0x00200037, 'DS', '')]])
    expect(await refusalOf(openVolume(await fileOf({ position: undefined, more })))).toContain(
      'a.dcm has no position',
    );
});

describe('A source series', () => {
  test('A source series has its images, its UIDs and its patient', async () => {
    const source = await writeSeries();
    const { slices, identity, ...facts } = source;
    expect(facts).toEqual({
      size: [5, 3, 4],
      affine: straight([-0.75, -1.5, 2.5], [20, -30, 40]),
      ...{
        name: path.basename(path.dirname(source.files[0] as string)),
        studyUid: '1.2.3',
        seriesUid: '1.2.3.4',
      },
      files: [1, 2, 3, 4].map((number) =>
        path.join(path.dirname(source.files[0] as string), `${number}.dcm`),
      ),
      ...{ frameOfReferenceUid: '1.2.3.9', seriesNumber: 7, modality: 'MR', orientation: [1, 0, 0, 0, 1, 0] },
      ...{ pixelSpacing: [1.5, 0.75], thickness: 2.5, characterSet: null, lossy: [['00282110', 'CS', '00']] },
    });
    expect(slices).toEqual(
      [4, 3, 2, 1].map((number, k) => [
        {
          ...{
            file: source.files[number - 1],
            sopClass: '1.2.840.10008.5.1.4.1.1.4',
            sopInstance: `1.2.3.5.${k + 1}`,
          },
          ...{ frame: null, position: [-20, 30, 40 + 2.5 * k] },
        },
      ]),
    );
    expect(identity.length).toBeGreaterThan(8);
    expect((await readSourceSeries(source.files)).slices).toEqual(slices);
    expect((await readSourceSeries(source.files)).name).toBe(facts.name);
  });

  test.each<[Element, string]>([
    [element(0x0020000d, 'UI', ''), 'StudyInstanceUID, so nothing can refer to it.'],
    [element(0x0020000e, 'UI', ''), 'SeriesInstanceUID, so nothing can refer to it.'],
  ])('A source series is refused without a UID (%#)', async (without, end) => {
    const file = await fileOf({ more: [thick, without] });
    expect(await refusalOf(readSourceSeries(file))).toBe(`a.dcm has no ${end}`);
  });

  test('A segmentation, or an image without a position, is refused as a source series', async () => {
    const map = [
      element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.66.7'),
      element(0x00620001, 'CS', 'LABELMAP'),
    ];
    const seg = await fileOf({ more: [...map, thick] });
    expect(await refusalOf(readSourceSeries(seg))).toBe(
      'a.dcm is a segmentation: give the series that it was made of.',
    );
    const capture = [element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.7'), element(0x00200037, 'DS', '')];
    expect(await refusalOf(readSourceSeries(await fileOf({ position: undefined, more: capture })))).toBe(
      'a.dcm holds no DICOM slices with a place in the patient.',
    );
  });

  test('A source series without a frame of reference gets a derived one', async () => {
    const source = await writeSeries({ more: [element(0x00200052, 'UI', '')] });
    expect(source.frameOfReferenceUid).toMatch(/^2\.25\.\d+$/);
    expect((await readSourceSeries(source.files)).frameOfReferenceUid).toBe(source.frameOfReferenceUid);
    expect((await maskOn(source)).size).toEqual(source.size);
  });
});

describe('A segmentation of 3D Slicer', () => {
  const header = (sizes: string, kinds: string, ...pairs: string[]) =>
    lines('NRRD0004', 'type: uchar', `sizes: ${sizes}`, `kinds: ${kinds}`, 'encoding: raw', ...pairs, '');
  const one = (...pairs: string[]) => header('2 1 2', 'domain domain domain', ...pairs);
  const two = (...pairs: string[]) => header('2 2 1 2', 'list domain domain domain', ...pairs);
  const open = async (text: string, ...values: number[]) =>
    openVolume(await write(await workspace(), 'a.seg.nrrd', text, bytesOf(values, 'uint8')));
  const labelsOf = async (...pairs: string[]) => (await open(one(...pairs), 1, 2, 0, 5)).labels;

  test('A segmentation of 3D Slicer has names, colours and values, or defaults', async () => {
    expect(
      await labelsOf(
        'Segment0_Name:= Liver ',
        'Segment0_Color:=1 0.5 0',
        'Segment0_LabelValue:=5',
        'Segment1_ID:=two',
      ),
    ).toEqual([
      { value: 5, name: 'Liver', colour: '#ff8000' },
      { value: 1, name: 'two', colour: null },
    ]);
    expect(await labelsOf('Segment0_Name:=', 'Segment0_Color:=1 0')).toEqual([
      { value: 1, name: 'segment 1', colour: null },
    ]);
    for (const colour of ['1 0 1.1', '1 -0.1 0', 'red 0 0', '1 0 0 0'])
      expect((await labelsOf('Segment0_Name:=a', `Segment0_Color:=${colour}`))?.[0]?.colour).toBeNull();
    expect((await labelsOf('Segment0_Name:=a', 'Segment0_Color:=0 0.01 1'))?.[0]?.colour).toBe('#0003ff');
  });

  test.each([['0'], ['-1'], ['1.5'], ['65536'], ['x']])(
    'A segmentation of 3D Slicer with the label value %s has no labels',
    async (value) => {
      expect(await labelsOf('Segment0_Name:=a', `Segment0_LabelValue:=${value}`)).toBeNull();
    },
  );

  test('A segmentation of 3D Slicer has no labels if a value is ambiguous or the first name is missing', async () => {
    expect(await labelsOf('Segment0_Name:=a', 'Segment1_Name:=b', 'Segment1_Layer:=0')).toBeNull();
    expect(await labelsOf('Segment1_Name:=b')).toBeNull();
  });

  const layers = [
    'Segment0_Name:=a',
    'Segment0_LabelValue:=7',
    'Segment0_Layer:=0',
    'Segment1_Name:=b',
    'Segment1_Layer:=1',
  ];
  test.each([
    ['keep their values if all differ', '9', [7, 9], [9, 7, 0, 9]],
    ['get the numbers of their segments otherwise', '7', [1, 2], [2, 1, 0, 2]],
  ])('The layers of a 3D Slicer segmentation %s', async (_, second, values, wanted) => {
    const volume = await open(
      two(...layers, `Segment1_LabelValue:=${second}`),
      7,
      Number(second),
      7,
      0,
      0,
      0,
      3,
      Number(second),
    );
    expect([volume.frames, volume.labels?.map(({ value }) => value)]).toEqual([1, values]);
    const all: number[] = [];
    for await (const { values: plane } of volume.slices()) all.push(...plane);
    // Of voxels in several layers the last one is kept; a value that is no segment's stays where all differ.
    expect(all).toEqual(wanted);
    const apart: [number, number[]][] = [];
    for await (const { k, values: plane } of volume.layers?.() ?? []) apart.push([k, [...plane]]);
    expect(apart).toEqual([
      [0, [values[0], values[0]]],
      [0, [values[1], 0]],
      [1, [0, second === '9' ? 3 : 0]],
      [1, [0, values[1]]],
    ]);
    await expect(volume.slices({ frame: 1 }).next()).rejects.toThrow(
      new VolumeError(`${volume.path} holds one segmentation.`),
    );
  });

  test('A segmentation of 3D Slicer with a missing layer is read as an ordinary volume', async () => {
    const volume = await open(two('Segment0_Name:=a', 'Segment0_Layer:=2'), 1, 2, 3, 4, 5, 6, 7, 8);
    expect([volume.frames, volume.labels]).toEqual([2, null]);
  });

  test.each([300, 256, 255])(
    'Consecutive layers of a 3D Slicer segmentation are read slice by slice, with values up to %i',
    async (wide) => {
      const text = header(
        '2 1 2 2',
        'domain domain domain list',
        ...layers,
        `Segment1_LabelValue:=${wide}`,
      ).replace('uchar', 'ushort');
      const file = await write(
        await workspace(),
        'a.seg.nrrd',
        text.replace('encoding', 'endian: little\nencoding'),
        bytesOf([7, 0, 0, 0, 0, wide, wide, 0], 'uint16'),
      );
      const volume = await openVolume(file);
      const values = (...each: number[]) => (wide > 255 ? Uint16Array : Uint8Array).from(each);
      const all: unknown[] = [];
      for await (const { k, values: plane } of volume.slices()) all.push([k, plane.slice()]);
      expect(all).toEqual([
        [0, values(7, wide)],
        [1, values(wide, 0)],
      ]);
      for await (const { k, values: plane } of volume.slices({ only: [1] }))
        expect([k, [...plane]]).toEqual([1, [wide, 0]]);
    },
  );
});

test.each([
  ['SOPInstanceUID', 0x00080018],
  ['SOPClassUID', 0x00080016],
])('A source series is refused if its images have no %s', async (_, tag) => {
  const bare = { hasPreamble: false, hasMeta: false };
  const more = [element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY'), thick];
  const read = async (...others: Element[]) =>
    readSourceSeries(
      await write(await workspace(), 'a.dcm', dicomFile({ ...slice, more: [...more, ...others] }, bare)),
    );
  expect((await read()).slices).toHaveLength(1);
  await expect(read(element(tag, 'UI', ''))).rejects.toThrow(
    'a.dcm has no SOPInstanceUID or no SOPClassUID, so nothing can refer to it.',
  );
});
