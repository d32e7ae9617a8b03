import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { dicomFile, element } from '../../../test/support/dicom-files.js';
import { openBelow } from '../../../test/support/open-files.js';
import { readStart } from '../src/headers/index.js';
import { identityIn } from '../src/identity/index.js';
import {
  openVolume,
  readSourceSeries,
  readVolume,
  type VolumeFile,
  writeDicomSeg,
  writeRtStruct,
  writeSegNrrd,
  writeVolume,
} from '../src/index.js';
import { maker, segments } from './study.js';
import { bytesOf, counting, gzip, lines, niftiHeader, workspace, write } from './written.js';

test.skipIf(process.platform !== 'linux')(
  'No file stays open, whether it is read to its end or not',
  async () => {
    const directory = await workspace();
    const closed = () => expect.poll(() => openBelow(directory)).toEqual([]);
    const reading = async (file: string | VolumeFile) => {
      const volume = typeof file === 'string' ? await openVolume(file) : file;
      await closed();
      for (const slices of [volume.slices(), volume.layers?.() ?? volume.slices()]) {
        for await (const _ of slices) break;
        await closed();
      }
      await readVolume(volume);
      await closed();
      return volume;
    };
    const bytes = bytesOf(counting(24), 'int16');
    await reading(await write(directory, 'a.nii', niftiHeader({ size: [3, 2, 4] }), bytes));
    await reading(await write(directory, 'a.nii.gz', gzip(niftiHeader({ size: [3, 2, 4] }), bytes)));
    for (const at of [0, 1]) await write(directory, `${at}.raw`, bytes.subarray(24 * at, 24 * at + 24));
    const header = lines(
      'NDims = 3',
      'DimSize = 3 2 4',
      'ElementType = MET_SHORT',
      'ElementDataFile = %d.raw 0 1',
    );
    await reading(await write(directory, 'a.mhd', header));

    const series = path.join(directory, 'series');
    await mkdir(series);
    for (const z of [0, 1, 2]) {
      const more = [element(0x00080018, 'UI', `1.2.3.${z}`)];
      const slice = { pixels: new Int16Array(4), size: [2, 2] as const, position: [0, 0, z], more };
      await write(series, `${z}.dcm`, dicomFile(slice, { isDeflated: z === 1 }));
    }
    const { size, affine } = await reading(series);
    const file = path.join(series, '0.dcm');
    expect((await readStart(file)).dicom?.rows).toBe(2);
    expect((await identityIn(file, async () => {}))?.isWhole).toBe(true);
    const source = await readSourceSeries(series);
    await closed();

    const mask = path.join(directory, 'mask.mha');
    await writeVolume(mask, { size, affine, data: new Uint8Array(12).fill(1) });
    await closed();
    const layers = [{ mask: await openVolume(mask), segments }];
    const written = ['seg.dcm', 'rt.dcm', 'a.seg.nrrd'].map((name) => path.join(directory, name));
    const [seg = '', rt = '', nrrd = ''] = written;
    await writeDicomSeg(seg, layers, source, { maker });
    await writeRtStruct(rt, layers, source, { maker });
    await writeSegNrrd(nrrd, layers);
    await closed();
    for (const each of [seg, nrrd]) await reading(each);
    await expect(openVolume(rt)).rejects.toThrow();
    await closed();
  },
);
