import { appendFile, copyFile, mkdir, rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { dicomFile, type Encoding, type Slice } from '../../support/dicom-files.js';
import { geometryOf, readImage, writeImage } from './images.js';
import { operate, phantom, refusalOf, sharedWorkspace, workspace } from './program.js';

/** A synthetic head of whole numbers, so that DICOM can hold it, and what the app makes of it as a NIfTI file. */
const SIDE = 24;
const STEP = 9;
const PLANE = SIDE * SIDE;
let head = new Int16Array(0);
const origin = [-100, -90, -80];
const shared = sharedWorkspace(async (cwd) => {
  await phantom(['--out', '.', '--size', String(SIDE), '--cases', '1'], cwd);
  const { data } = await readImage(cwd, 'image/head_001.nii.gz');
  const top = Float32Array.from(data).reduce((most, value) => Math.max(most, value), 0);
  head = Int16Array.from(data, (value) => 8 * Math.round((value / top) * 100));
});
let expected: Awaited<ReturnType<typeof readImage>>;
beforeAll(async () => {
  const cwd = shared();
  const given = { size: [SIDE, SIDE, SIDE] as const, spacing: [9, 9, STEP], origin };
  await writeImage(path.join(cwd, 'whole.nii.gz'), head, given);
  await operate(['infer', '--output', 'O', '--inputs', 'whole.nii.gz'], cwd);
  expected = await readImage(cwd, 'O/whole.nii.gz');
});

const positionOf = (index: number) => [-100, -90, -80 + STEP * index];
const nameOf = (index: number) => `slice_${String(index).padStart(2, '0')}.dcm`;

function sliceOf(index: number, given: Partial<Slice> = {}): Slice {
  const pixels = head.slice(index * PLANE, (index + 1) * PLANE);
  return { pixels, size: [SIDE, SIDE], spacing: [9, 9], position: positionOf(index), ...given };
}

/** Writes the head as a series; `change` says what is different about a slice, and how it is written. */
async function writeSeries(
  directory: string,
  change: (index: number) => [Partial<Slice>, Encoding?] = () => [{}],
) {
  await mkdir(directory);
  for (let index = 0; index < SIDE; index += 1) {
    const [given, encoding] = change(index);
    await writeFile(path.join(directory, nameOf(index)), dicomFile(sliceOf(index, given), encoding));
  }
}

async function expectLabels(cwd: string, input: string): Promise<string> {
  const log = await operate(['infer', '--output', 'O', '--inputs', input], cwd);
  const labels = await readImage(cwd, 'O', `${path.basename(input, '.dcm')}.nii.gz`);
  expect(geometryOf(labels)).toEqual(geometryOf(expected));
  expect(labels.data).toEqual(expected.data);
  return log;
}

test.each<[string, Encoding]>([
  ['whole', {}],
  ['without preamble', { hasPreamble: false }],
  ['without preamble and meta information', { hasPreamble: false, hasMeta: false }],
  ['without these and value representations', { hasPreamble: false, hasMeta: false, isImplicit: true }],
])('A series with slices %s is read with all of them', async (name, encoding) => {
  const cwd = shared();
  await writeSeries(path.join(cwd, name), (index) => (index % 5 === 2 ? [{}, encoding] : [{}]));
  await expectLabels(cwd, name);
});

test('Each slice is scaled by its own slope and intercept', async () => {
  const cwd = shared();
  await writeSeries(path.join(cwd, 'scaled'), (index) => {
    const [slope, intercept] = index % 2 === 0 ? [2, -8] : [0.5, 4];
    const pixels = head.slice(index * PLANE, (index + 1) * PLANE).map((value) => (value - intercept) / slope);
    return [{ pixels, slope, intercept }];
  });
  await expectLabels(cwd, 'scaled');
});

/** An enhanced file whose frames are in an order of their own. */
function enhanced(given: { hasPositions?: boolean; scale?: (index: number) => number } = {}): Slice {
  const { hasPositions = true, scale = () => 1 } = given;
  const order = Array.from({ length: SIDE }, (_, index) => (index * 5) % SIDE);
  const pixels = Int16Array.from({ length: head.length }, (_, at) => {
    const index = order[Math.floor(at / PLANE)] ?? 0;
    return (head[index * PLANE + (at % PLANE)] ?? 0) / scale(index);
  });
  const frames = order.map((index) => ({
    ...(hasPositions && { position: positionOf(index) }),
    slope: scale(index),
  }));
  return { pixels, size: [SIDE, SIDE], spacing: [9, 9], frames };
}

test.each<[string, Encoding]>([
  ['enhanced.dcm', {}],
  ['implicit.dcm', { isImplicit: true }],
])('Frames of an enhanced file lie where their positions say: %s', async (name, encoding) => {
  const cwd = shared();
  await writeFile(path.join(cwd, name), dicomFile(enhanced(), encoding));
  await expectLabels(cwd, name);
});

test('Frames of an enhanced file are scaled by their own slopes', async () => {
  const cwd = shared();
  const scale = (index: number) => (index % 2 === 0 ? 2 : 4);
  await mkdir(path.join(cwd, 'scaled-frames'));
  await writeFile(path.join(cwd, 'scaled-frames/all'), dicomFile(enhanced({ scale })));
  await expectLabels(cwd, 'scaled-frames');
});

test('An enhanced file without positions is refused, not read with 1 mm', async () => {
  const cwd = shared();
  await writeFile(path.join(cwd, 'lost.dcm'), dicomFile(enhanced({ hasPositions: false })));
  expect(await refusalOf(['lost.dcm'], cwd)).toContain('frame 1 of lost.dcm has no position');
});

test('A file beside the slices that is none by its name is left out, and the log says so', async () => {
  const cwd = shared();
  await writeSeries(path.join(cwd, 'noted'));
  await writeFile(path.join(cwd, 'noted/notes.txt'), 'Patient moved.');
  expect(await expectLabels(cwd, 'noted')).toContain('  notes.txt is not a slice and is ignored\n');
});

test('Positions that a scanner has rounded are even enough', async () => {
  const cwd = shared();
  await writeSeries(path.join(cwd, 'rounded'), (index) => {
    const [x = 0, y = 0, z = 0] = positionOf(index);
    return [{ position: [x, y, z + (index === 5 ? 0.2 : 0)] }];
  });
  await expectLabels(cwd, 'rounded');
});

const slice = (index: number) => `series/${nameOf(index)}`;
test.each<[string, (file: (index: number) => string) => Promise<void>, string[]]>([
  [
    'a slice whose pixel data are cut',
    (file) => truncate(file(4), 1500),
    [slice(4), 'is cut short or damaged: copy it again'],
  ],
  [
    'a slice whose header promises more pixels',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { pixels: new Int16Array(PLANE - 10) }))),
    [slice(4), 'is cut short: its header says 1152 bytes of pixels, and it has 1132.'],
  ],
  [
    'a slice whose compressed pixel data are cut',
    async (file) => {
      const bytes = dicomFile(sliceOf(4), { isCompressed: true });
      await writeFile(file(4), bytes.subarray(0, -20));
    },
    [slice(4), 'is cut short or damaged'],
  ],
  [
    'a stub of 100 bytes',
    (file) => writeFile(file(4), Buffer.alloc(100)),
    [slice(4), 'is not a DICOM slice, or is cut short: remove it'],
  ],
  [
    'a slice that is missing',
    (file) => rm(file(4)),
    [slice(3), slice(5), 'are 18.00 mm, between other slices 9.00 mm: a slice is missing'],
  ],
  [
    'a slice that is there twice',
    (file) => copyFile(file(4), `${file(4)}.copy`),
    [slice(4), `${slice(4)}.copy`, 'lie at the same place: take out the copy'],
  ],
  [
    'a slice with other rows and columns',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { pixels: new Int16Array(600), size: [20, 30] }))),
    [slice(0), slice(4), 'differ in rows or columns (24 24 against 20 30)'],
  ],
  [
    'a slice that is turned',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { orientation: [1, 0, 0, 0, 0, -1] }))),
    [slice(0), slice(4), 'differ in orientation'],
  ],
  [
    'a slice of another pixel spacing',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { spacing: [8, 9] }))),
    [slice(0), slice(4), 'differ in pixel spacing (9 9 against 8 9)'],
  ],
  [
    'a slice without a position',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { position: undefined }))),
    [slice(4), 'has no position'],
  ],
  [
    'a slice without a pixel spacing',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { spacing: [] }))),
    [slice(4), 'has no pixel spacing'],
  ],
  [
    'a slice of another series',
    (file) => writeFile(file(4), dicomFile(sliceOf(4, { series: '1.2.9' }))),
    ['series holds more than one DICOM series', slice(0), slice(4), 'its own directory'],
  ],
])('A series with %s is refused, by the names of the files', async (_, damage, parts) => {
  const cwd = await workspace();
  const directory = path.join(cwd, 'series');
  await writeSeries(directory);
  await damage((index) => path.join(directory, nameOf(index)));
  const sentence = await refusalOf(['series'], cwd);
  for (const part of parts) expect(sentence).toContain(part);
});

test('Slices of a tilted gantry are refused', async () => {
  const cwd = await workspace();
  await writeSeries(path.join(cwd, 'series'), (index) => {
    const [x = 0, y = 0, z = 0] = positionOf(index);
    return [{ position: [x, y + 0.4 * STEP * index, z] }];
  });
  expect(await refusalOf(['series'], cwd)).toContain('series has slices that are tilted by 22 degrees');
});

test('Bytes after the pixel data are ignored with a message', async () => {
  const cwd = shared();
  await writeSeries(path.join(cwd, 'excess'));
  await appendFile(path.join(cwd, 'excess', nameOf(3)), Buffer.alloc(50));
  expect(await expectLabels(cwd, 'excess')).toContain(
    'slice_03.dcm: 50 bytes after the pixel data are ignored',
  );
});
