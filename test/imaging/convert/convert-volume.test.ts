import path from 'node:path';
import type { SourceSeries } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import { maker, maskOn, size, writeMask, writeSeries } from '../../../packages/volumes/test/study.js';
import { workspace } from '../../../packages/volumes/test/written.js';
import type { ResultFormat } from '../../../src/client/result-formats.js';
import { convertVolume } from '../../../src/imaging/convert/convert-volume.js';

describe('a label map of a scan with a tilted gantry', () => {
  const blocks = Uint8Array.from({ length: size[0] * size[1] * size[2] }, (_, at) => Number(at % 15 < 8));
  const notesOf = async (shift: number, format: ResultFormat) => {
    const source = await writeSeries({ shift });
    const volume = await maskOn(source, blocks);
    const conversion = {
      ...{
        volume,
        isLabelMap: true,
        overlap: null,
        maker,
        isHounsfield: false,
        isStrict: false,
        mayReplace: false,
      },
      layers: [{ mask: volume, segments: [] }],
      ...{ series: async () => source, seriesIfAny: async () => source },
    };
    const target = path.join(await workspace(), 'mask.out');
    return (await convertVolume(target, format, conversion)).note;
  };

  test.each<[number, ResultFormat, boolean]>([
    [1.5, 'dicom-seg', true],
    [1.5, 'dicom-labelmap', true],
    [1.5, 'rtstruct', false],
    [1.5, 'nrrd', false],
    // Less than is seen.
    [0.05, 'dicom-seg', false],
    [0, 'dicom-seg', false],
  ])(
    'A label map of slices that are tilted by %s mm, as %s, has a note about 3D Slicer: %j',
    async (shift, format, isTold) => {
      const note = await notesOf(shift, format);
      if (isTold)
        expect(note).toMatch(/^dcmqi, by which 3D Slicer reads mask\.out, ignores the tilted gantry of /);
      else expect(note).toBeNull();
    },
  );

  test('A label map of a scan with a tilted gantry is refused as a segmentation of 3D Slicer on another grid in strict mode', async () => {
    const source = await writeSeries({ shift: 1.5 });
    const placed = source.affine.map(([i, j, , offset], axis) => [
      i,
      j,
      axis === 2 ? Math.hypot(2.5, 1.5) : 0,
      offset,
    ]);
    const volume = await writeMask('mask.nii.gz', {
      size,
      affine: placed as unknown as SourceSeries['affine'],
      data: blocks,
    });
    const conversion = {
      ...{ volume, isLabelMap: true, overlap: null, maker, isHounsfield: false, mayReplace: false },
      layers: [{ mask: volume, segments: [] }],
      ...{ series: async () => source, seriesIfAny: async () => source },
    };
    const directory = await workspace();
    const convert = (name: string, isStrict: boolean) =>
      convertVolume(path.join(directory, name), 'nrrd', { ...conversion, isStrict });
    await expect(convert('a.seg.nrrd', true)).rejects.toThrow(/mask\.nii\.gz lies on another grid than/);
    expect((await convert('b.seg.nrrd', false)).note).toMatch(/^mask\.nii\.gz has the voxels of /);
  });
});

test('A label map that does not say where it lies is put on no scan, unless it has its grid', async () => {
  const source = await writeSeries({});
  const data = Uint8Array.from({ length: size[0] * size[1] * size[2] }, (_, at) => Number(at % 15 < 8));
  const placed = await maskOn(source, data);
  const target = path.join(await workspace(), 'mask.dcm');
  const convert = (volume: typeof placed) =>
    convertVolume(target, 'dicom-seg', {
      ...{ volume, isLabelMap: true, overlap: null, maker, isHounsfield: false, isStrict: false },
      ...{ mayReplace: true, layers: [{ mask: volume, segments: [] }] },
      ...{ series: async () => source, seriesIfAny: async () => source },
    });
  const [i, j, k] = placed.affine;
  const moved = { ...placed, affine: [i, j, [k[0], k[1], k[2], k[3] + 100]] } as typeof placed;
  await expect(convert({ ...moved, hasOrientation: false })).rejects.toThrow(
    /mask\.nii\.gz does not say where its voxels lie, so they cannot be put on .*: write it with an orientation/,
  );
  expect((await convert({ ...placed, hasOrientation: false })).note).toBeNull();
});
