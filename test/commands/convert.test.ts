import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Affine, isSameGeometry, openVolume, readVolume, writeNifti } from '@remote-app/volumes';
import { expect, onTestFinished, test } from 'vitest';
import { labels, size, writeSeries } from '../../packages/volumes/test/study.js';
import { Cli } from '../support/cli.js';

/** A client whose directory has `mask.nii.gz`, and the directory of its scan. */
async function withMask(shift = 0) {
  const source = await writeSeries({ shift });
  const cli = await Cli.create();
  onTestFinished(() => cli.remove());
  const at = (name: string) => path.join(cli.directory, name);
  await writeNifti(at('mask.nii.gz'), { size, affine: source.affine, data: labels });
  const like = path.dirname(source.files[0] ?? '');
  return {
    at,
    like,
    source,
    run: (...words: readonly string[]) => cli.run(['convert', 'mask.nii.gz', ...words]),
    runOn: (file: string, ...words: readonly string[]) => cli.run(['convert', file, ...words]),
  };
}

const namesIn = async (file: string) => (await openVolume(file)).labels?.map(({ name }) => name);

test('A mask gets the names that are typed or read from a file, and its new files are written next to it', async () => {
  const { at, like, run } = await withMask();
  const typed = await run(
    '--like',
    like,
    '--as',
    'dicom-seg',
    '--as',
    'rtstruct',
    '--labels',
    '1=liver, 5 = big = tumour',
  );
  expect(typed.code, typed.stderr).toBe(0);
  expect(typed.stdout).toBe(`${at('mask.seg.dcm')}\n${at('mask.rtstruct.dcm')}\n`);
  expect(await namesIn(at('mask.seg.dcm'))).toEqual(['liver', 'Label 2', 'big = tumour']);
  writeFileSync(at('app.json'), JSON.stringify({ terminology: { 2: { name: 'Vessel', color: '#eb8' } } }));
  const read = await run('--like', like, '--as', 'dicom-seg', '-o', 'own.dcm', '--labels', 'app.json');
  expect(read.code, read.stderr).toBe(0);
  expect((await openVolume(at('own.dcm'))).labels?.[1]).toMatchObject({ name: 'Vessel', colour: '#eebb88' });
});

test('A segmentation converts back to the same labels at the same places', async () => {
  const { at, like, run } = await withMask();
  expect(
    (await run('--like', like, '--as', 'dicom-labelmap', '-o', 'map.dcm', '--labels', '5=tumour')).code,
  ).toBe(0);
  const { labels: named, data } = await readVolume(at('map.dcm'));
  expect(named?.at(-1)).toMatchObject({ value: 5, name: 'tumour' });
  expect(data).toEqual(labels);
});

test('A mask that ignores the tilt of the gantry is matched to the images by number, with a note', async () => {
  const { at, like, run, source } = await withMask(1.5);
  const blocks = labels.map((_, at) => Number(at % 15 < 8));
  const placed = (step: number) =>
    source.affine.map(([i, j, , offset], axis) => [i, j, axis === 2 ? step : 0, offset]) as unknown as Affine;
  await writeNifti(at('mask.nii.gz'), { size, affine: placed(Math.hypot(2.5, 1.5)), data: blocks });
  const formats = ['--as', 'nrrd', '--as', 'dicom-labelmap'];
  const done = await run('--like', like, ...formats, '--json');
  expect(done.code, done.stderr).toBe(0);
  const { converted } = JSON.parse(done.stdout);
  const note = expect.stringMatching(/^mask\.nii\.gz has the voxels of .* on the images of the same number$/);
  expect(converted).toEqual([
    expect.objectContaining({ note }),
    expect.objectContaining({
      note: expect.stringMatching(/same number; dcmqi, by which 3D Slicer reads mask\.l/),
    }),
  ]);
  for (const name of ['mask.seg.nrrd', 'mask.labelmap.dcm']) {
    const { affine, data } = await readVolume(at(name));
    expect(data).toEqual(blocks);
    expect(isSameGeometry({ size, affine }, source)).toBe(true);
  }
  await writeNifti(at('mask.nii.gz'), { size, affine: placed(2.5), data: blocks });
  for (const format of ['nrrd', 'rtstruct']) {
    const refused = await run('--like', like, '--as', format, '--force');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('it is uncertain where')]);
  }
});

test('--strict refuses a mask on another grid, and a format that is named twice is written once', async () => {
  const { at, like, run, source } = await withMask();
  const affine = source.affine.map(([i, j, k, offset]) => [i, j, k, offset + i / 3]) as unknown as Affine;
  await writeNifti(at('mask.nii.gz'), { size, affine, data: labels });
  const words = ['--like', like, '--as', 'dicom-seg', '--as', 'dicom-seg'];
  const refused = await run(...words, '--strict');
  expect([refused.code, existsSync(at('mask.seg.dcm'))]).toEqual([1, false]);
  expect(refused.stderr).toMatch(/^Error: .*mask\.nii\.gz/);
  const written = await run(...words);
  expect([written.code, written.stdout]).toEqual([0, `${at('mask.seg.dcm')}\n`]);
  expect(written.stderr).toMatch(/mask\.nii\.gz lies on another grid than .* nearest voxels/);
});

test('Existing files are replaced only with --force', async () => {
  const { at, like, run } = await withMask();
  writeFileSync(at('seg.dcm'), 'mine');
  const words = ['--like', like, '--as', 'dicom-seg', '-o', 'seg.dcm'];
  const refused = await run(...words);
  expect(refused.code, refused.stderr).toBe(2);
  expect(refused.stderr).toContain('already exists; replace it with --force');
  expect(readFileSync(at('seg.dcm'), 'utf8')).toBe('mine');
  expect((await run(...words, '--force')).code).toBe(0);
  expect(await namesIn(at('seg.dcm'))).toHaveLength(3);
});

test.each<[string, (like: string) => string[], RegExp]>([
  [
    'no scan',
    () => ['--as', 'dicom-seg'],
    /--as dicom-seg lies in the study of a scan: name its DICOM series with --like/,
  ],
  [
    'a scan in no study',
    () => ['--as', 'rtstruct', '--like', 'mask.nii.gz'],
    /mask\.nii\.gz' is no DICOM series/,
  ],
  [
    'one name for two files',
    (like) => ['--as', 'dicom-seg', '--as', 'rtstruct', '-o', 'x.dcm', '--like', like],
    /--output names one file/,
  ],
  [
    'names that are none',
    (like) => ['--as', 'dicom-seg', '--like', like, '--labels', '1=liver,tumour'],
    /--labels has 'tumour'; name labels as in 1=liver,2=tumour/,
  ],
  [
    'the ending of another format',
    () => ['--as', 'nrrd', '-o', 'x.nii'],
    /'x\.nii' does not have the extension of nrrd/,
  ],
  ['a format that it is in', () => ['--as', 'nifti'], /is already in that format/],
])('convert says what is wrong with %s and writes nothing', async (_, words, message) => {
  const { at, like, run } = await withMask();
  const ended = await run(...words(like));
  expect(ended.code).toBe(2);
  expect(ended.stderr).toMatch(message);
  expect(
    ['x.dcm', 'x.nii', 'mask.seg.dcm', 'mask.rtstruct.dcm', 'mask.seg.nrrd'].some((name) =>
      existsSync(at(name)),
    ),
  ).toBe(false);
});

test('A directory of masks is refused if it is unclear what they are, or if a format is not named', async () => {
  const { at, like, source, runOn } = await withMask();
  const masks = at('masks');
  mkdirSync(masks);
  const plant = (name: string, data: Uint8Array) =>
    writeNifti(path.join(masks, name), { size, affine: source.affine, data });
  const run = (...words: readonly string[]) => runOn('masks/', '--like', like, ...words);
  const block = (at: number) => labels.map((_, index) => Number(index >= at && index < at + 9));
  await plant('one.nii.gz', block(0));
  await plant('two.nii.gz', block(20));
  const done = await run('--as', 'dicom-seg', '--as', 'nrrd', '--json');
  expect(done.code, done.stderr + done.stdout).toBe(0);
  expect(JSON.parse(done.stdout)).toMatchObject({
    from: masks,
    converted: ['segments.seg.dcm', 'segments.seg.nrrd'].map((name) => ({
      output: path.join(masks, name),
      labels: [{ name: 'one' }, { name: 'two' }],
    })),
  });
  // A converted file is not a mask.
  const again = await run('--as', 'dicom-seg', '--force');
  expect(again.code, again.stderr).toBe(0);
  const nameless = await run('--as', 'nifti');
  expect(nameless.code, nameless.stderr).toBe(2);
  expect(nameless.stderr).toMatch(/--as nifti does not name segments: convert the files of .* one by one/s);
  await plant('all.nii.gz', labels);
  const several = await run('--as', 'dicom-seg', '--force');
  expect(several.code, several.stderr).toBe(2);
  expect(several.stderr).toMatch(/all\.nii\.gz' is no mask of a single/);
  rmSync(path.join(masks, 'all.nii.gz'));
  for (const name of ['p1_liver', 'p1_spleen', 'p2_liver', 'p2_spleen'])
    await plant(`${name}.nii.gz`, block(5));
  const people = await run('--as', 'dicom-seg', '--force');
  expect([people.code, people.stderr]).toEqual([2, expect.stringMatching(/has masks of p1 and of p2/)]);
});
