import type { VolumeFile, Voxels } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import type { CaseView } from '../../../src/imaging/pictures/picture.js';
import { windowText } from '../../../src/imaging/pictures/sheet.js';
import { viewOf as viewCase, volumeOf } from './phantom.js';

const side = 24;
const size = [side, side, side] as const;
type Value = (x: number, y: number, z: number) => number;

const fill = <T extends Voxels>(data: T, value: Value): T => {
  for (let at = 0; at < data.length; at += 1)
    data[at] = value(at % side, Math.floor(at / side) % side, Math.floor(at / side ** 2));
  return data;
};
const floats = (value: Value) => fill(new Float32Array(side ** 3), value);
const view = (scan: VolumeFile, unit?: string): Promise<CaseView> =>
  viewCase({ name: 'case', scan, mask: null, unit: unit ?? null }, { slices: 3, maxPixels: 64 });
const windowOf = async (value: Value, more: Partial<VolumeFile> = {}) =>
  view(volumeOf(floats(value), size, { path: '/data/scan.nii', ...more }));

/** A body of tissue in air, with some noise. */
const noise: Value = (x, y, z) => ((x * 37 + y * 61 + z * 17) % 21) - 10;
const body: Value = (x, y, z) => {
  const isBody = Math.hypot(x - 12, y - 12, z - 12) < 9;
  return (isBody ? 40 : -1000) + noise(x, y, z);
};
const softTissue = { low: -160, high: 240 };
const guess = 'scan.nii is drawn as CT, which is a guess: it names no modality, and contains air near -1000';

describe('A volume without metadata', () => {
  test.each<[string, Value]>([
    ['of whole HU', body],
    ['of fractions of HU', (...at) => body(...at) + 0.25],
    ['with a circle outside of which all is -3024', (x, y, z) => (x < 3 ? -3024 : body(x, y, z))],
    ['with air at -1024', (...at) => (body(...at) < -900 ? -1024 : body(...at))],
  ])('A volume without metadata is recognised as CT by its air: %s', async (_, value) => {
    const drawn = await windowOf(value);
    expect(drawn.window).toEqual({ ...softTissue, unit: null });
    expect(drawn.notes).toContain(guess);
    expect(windowText(drawn)).toBe('black -160, white 240');
  });

  test.each<[string, Value]>([
    ['phase of MR', (x, y, z) => ((x * 351 + y * 127 + z * 13) % 8191) - 4096],
    ['phase of MR in thousandths', (x, y, z) => ((x * 351 + y * 127 + z * 13) % 2001) - 1000],
    ['susceptibility', (x, y, z) => ((x * 5 + y * 7 + z * 3) % 41) * 10 - 200],
    [
      'susceptibility with few large values',
      (x, y, z) => ((x + y + z) % 64 === 30 && x > 12 ? -1000 : noise(x, y, z)),
    ],
    ['PET', (x, y, z) => (x * y * z) % 500],
  ])('A volume without metadata is not mistaken for CT: %s', async (_, value) => {
    const drawn = await windowOf(value);
    expect(drawn.window).not.toMatchObject(softTissue);
    expect(drawn.notes).not.toContain(guess);
  });
});

test('A few very bright voxels do not decide what is white', async () => {
  const drawn = await windowOf((x, y, z) => (x === 12 && y === 12 && z === 12 ? 1e6 : 10 * x + y));
  expect(drawn.window?.high).toBeLessThan(260);
});

test('Units are shown if the file names them', async () => {
  const ct = await windowOf(body, { modality: 'CT', unit: 'HU' });
  expect(ct.window).toEqual({ ...softTissue, unit: 'HU' });
  expect(ct.notes).toEqual([]);
  expect((await windowOf(body, { modality: 'CT', unit: null })).window?.unit).toBeNull();
  expect((await windowOf(body, { modality: 'MR' })).window).not.toMatchObject(softTissue);
});

test('The unit that the app names applies to a file without metadata', async () => {
  const inHead: Value = (x, y, z) => 40 + noise(x, y, z);
  const of = (unit: string, more: Partial<VolumeFile> = {}) =>
    view(volumeOf(floats(inHead), size, { path: '/data/scan.nii', ...more }), unit);
  const ct = await of('HU');
  expect(ct.window).toEqual({ ...softTissue, unit: 'HU' });
  expect(ct.notes).not.toContain(guess);
  const times = await of('ms');
  expect(windowText(times)).toMatch(/^black 3\d, white 50 ms$/);
  for (const more of [{ modality: 'MR' }, { modality: 'CT', unit: null }])
    expect((await of('ms', more)).window?.unit).toBeNull();
});

test('A volume whose lowest value is white is drawn with inverted values', async () => {
  const ramp: Value = (x, y) => 500 + 40 * x + y;
  const inverted = await windowOf(ramp, { isInverted: true });
  const turned = await windowOf((...at) => 4000 - ramp(...at));
  const pixelsOf = (drawn: CaseView) =>
    drawn.planes.flatMap(({ slices }) => slices.flatMap(({ pixels }) => [...pixels]));
  const [one, other] = [pixelsOf(inverted), pixelsOf(turned)];
  expect(one.length).toBe(other.length);
  expect(Math.max(...one.map((pixel, at) => Math.abs(pixel - (other[at] ?? 0))))).toBeLessThanOrEqual(1);
  expect(windowText(inverted)).toMatch(/^black 1\d{3}, white 5\d\d$/);
  // What is no number stays black.
  const holes = await windowOf((x, y, z) => (x === 0 ? Number.NaN : ramp(x, y, z)), { isInverted: true });
  expect(holes.planes[0].slices[0]?.pixels.at(side - 1)).toBe(0);
});

test('Reading a volume ends when it is interrupted', async () => {
  const stop = new AbortController();
  const scan = volumeOf(floats(body), size);
  const slow: VolumeFile = {
    ...scan,
    async *slices(choice) {
      for await (const slice of scan.slices(choice)) {
        if (slice.k === 5) stop.abort(new Error('stopped'));
        expect(slice.k).toBeLessThanOrEqual(5);
        yield slice;
      }
    },
  };
  const reading = viewCase(
    { name: 'case', scan: slow, mask: null },
    { slices: 3, maxPixels: 64, signal: stop.signal },
  );
  await expect(reading).rejects.toThrow('stopped');
});

test('Reading a packed file without pauses between slices still lets signals be handled', async () => {
  const stop = new AbortController();
  const scan = volumeOf(new Uint8Array(64), [8, 8, 1]);
  const endless: VolumeFile = {
    ...scan,
    size: [8, 8, 60_000],
    async *slices() {
      for (let k = 0; k < 60_000; k = (k + 1) % 60_000) yield { k, values: new Uint8Array(64) };
    },
  };
  setTimeout(() => stop.abort(new Error('stopped')), 0);
  const reading = viewCase(
    { name: 'case', scan: null, mask: endless },
    { slices: 1, maxPixels: 64, signal: stop.signal },
  );
  await expect(reading).rejects.toThrow('stopped');
});
