import { appendFileSync, cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { type Affine, openVolume, readVolume, type SourceSeries, writeNifti } from '@remote-app/volumes';
import { expect, onTestFinished, test } from 'vitest';
import { parse, size, writeSeries } from '../../packages/volumes/test/study.js';
import { Cli } from '../support/cli.js';
import { element } from '../support/dicom-files.js';
import type { Play } from '../support/scripted-executor.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

/** Labels in blocks, as in real masks. Values that differ from voxel to voxel would be taken for intensities. */
const labels = Uint8Array.from({ length: size[0] * size[1] * size[2] }, (_, at) => {
  const [column, k] = [at % size[0], Math.floor(at / (size[0] * size[1]))];
  return column < 2 ? 1 : column === 2 ? 0 : k === 0 ? 2 : 5;
});

/** Counts its runs beside its directory, and hands out what lies in its `result`. */
const play: Play = async ({ argv, program, cwd }) => {
  const app = path.dirname(program);
  appendFileSync(path.join(app, '..', 'runs'), 'run\n');
  const output = path.resolve(cwd, argv[argv.indexOf('--output') + 1] ?? '');
  cpSync(path.join(app, 'result'), output, { recursive: true });
};

const terminology = {
  1: { name: 'Liver', color: '#dd8265', snomed: { code: '10200004', meaning: 'Liver' } },
  5: { name: 'Tumour', color: '#00ff00' },
};

/** A server with an app that answers with these volumes, and a client. */
async function withApp(
  results: Readonly<Record<string, { affine: Affine; data: Uint8Array | Int16Array }>>,
  names: object = terminology,
) {
  const cli = await Cli.create();
  const app = path.join(cli.home, 'app');
  await plant(app, {
    // What the server finds; in its place, the jobs do what `play` says.
    'play.mjs': '',
    'app.json': JSON.stringify({
      display_name: 'Copier',
      description: 'x',
      short_description: 'x',
      tta: 0,
      mc_dropout: 0,
      inputs: Object.fromEntries(
        ['a', 'b'].map((key) => [key, { display_name: key, volume_type: 'VOLUME', required: key === 'a' }]),
      ),
      terminology: names,
      command: ['node', 'play.mjs'],
    }),
  });
  for (const [name, result] of Object.entries(results)) {
    await mkdir(path.dirname(path.join(app, 'result', name)), { recursive: true });
    await writeNifti(path.join(app, 'result', name), { size, ...result });
  }
  const server = await TestServer.start({ play, apps: [app] });
  onTestFinished(async () => {
    await server[Symbol.asyncDispose]();
    await cli.remove();
  });
  const runs = () => {
    const file = path.join(cli.home, 'runs');
    return existsSync(file) ? readFileSync(file, 'utf8').length / 'run\n'.length : 0;
  };
  return {
    run: (...words: readonly string[]) => cli.run(words, { REMOTE_APP_SERVER: server.url }),
    at: (...parts: readonly string[]) => path.join(cli.directory, ...parts),
    runs,
  };
}

const directoryOf = ({ files }: SourceSeries): string => path.dirname(files[0] ?? '');

const recordIn = (directory: string) =>
  JSON.parse(readFileSync(path.join(directory, 'remote-app-record.json'), 'utf8'));

test('A converted result belongs to the study of its scan, has the names that the app gives, and is saved next to the original', async () => {
  const source = await writeSeries();
  const { run, at } = await withApp({ 'mask.nii.gz': { affine: source.affine, data: labels } });
  // A DICOM series contains only intensities.
  const formats = ['dicom-seg', 'rtstruct', 'nrrd', 'nifti', 'dicom'];
  const ended = await run(
    'infer',
    directoryOf(source),
    '--json',
    ...formats.flatMap((each) => ['--as', each]),
  );
  expect(ended.code, ended.stderr).toBe(0);
  const written = [
    { from: 'mask.nii.gz', as: 'dicom-seg', name: 'mask.seg.dcm' },
    { from: 'mask.nii.gz', as: 'rtstruct', name: 'mask.rtstruct.dcm' },
    { from: 'mask.nii.gz', as: 'nrrd', name: 'mask.seg.nrrd' },
  ];
  const conversion = { as: formats, outputs: written, problems: [] };
  expect(JSON.parse(ended.stdout)).toMatchObject({ conversion });
  const record = recordIn(at('Output'));
  expect(record.conversion).toEqual(conversion);
  expect(record.outputs.map(({ name }: { name: string }) => name)).toEqual([
    'mask.nii.gz',
    'mask.rtstruct.dcm',
    'mask.seg.dcm',
    'mask.seg.nrrd',
  ]);
  const named = [
    ['Liver', '#dd8265'],
    ['Label 2', null],
    ['Tumour', '#00ff00'],
  ];
  const seg = await openVolume(at('Output', 'mask.seg.dcm'));
  expect(seg.labels?.map(({ name, colour }) => [name, colour])).toEqual(named);
  const slicer = await readVolume(at('Output', 'mask.seg.nrrd'));
  expect(slicer.labels?.map(({ value, name }) => [value, name])).toEqual([
    [1, 'Liver'],
    [2, 'Label 2'],
    [5, 'Tumour'],
  ]);
  expect(slicer.data).toEqual(labels);
  const liver = parse(readFileSync(at('Output', 'mask.seg.dcm'))).elements.x00620002?.items?.[0]?.dataSet;
  expect(liver?.elements.x0062000f?.items?.[0]?.dataSet?.string('x00080100')).toBe('10200004');
  for (const name of ['mask.seg.dcm', 'mask.rtstruct.dcm']) {
    const set = parse(readFileSync(at('Output', name)));
    expect([set.string('x0020000d'), set.string('x00100010')]).toEqual(['1.2.3', 'Muster^Anna']);
  }
  // Later, and without a server: the record knows the names and what made it, so that it is the same object.
  const again = await run(
    'convert',
    at('Output', 'mask.nii.gz'),
    '--like',
    directoryOf(source),
    '--as',
    'dicom-seg',
    '-o',
    'seg.dcm',
  );
  expect(again.code, again.stderr).toBe(0);
  expect(readFileSync(at('seg.dcm'))).toEqual(readFileSync(at('Output', 'mask.seg.dcm')));
});

/** Voxels in a part of the slices, with one value. */
const blocks = (from: number, to: number, value = 1) =>
  labels.map((_, at) => (at >= from && at < to ? value : 0));

const namesIn = (directory: string): string[] =>
  recordIn(directory).outputs.map(({ name }: { name: string }) => name);

test('Masks of single structures become one file with named segments, even when convert gets their directory', async () => {
  const source = await writeSeries();
  const { affine } = source;
  const names = { ...terminology, 2: { name: 'Kidney left', color: '#0080ff' } };
  const organs = {
    'organs/liver.nii.gz': { affine, data: blocks(0, 20) },
    'organs/kidney_left.nii.gz': { affine, data: blocks(20, 40) },
    'organs/tumour.nii.gz': { affine, data: blocks(10, 15, 7) },
    'organs/spleen.nii.gz': { affine, data: blocks(0, 0) },
    'whole.nii.gz': { affine, data: labels },
  };
  const { run, at } = await withApp(organs, names);
  // One of them has the name of the scan.
  const scan = at('liver');
  await plant(
    scan,
    Object.fromEntries(source.files.map((file) => [path.basename(file), readFileSync(file)])),
  );
  const formats = ['dicom-seg', 'rtstruct', 'nrrd', 'nifti'];
  const ended = await run('infer', scan, ...formats.flatMap((each) => ['--as', each]));
  expect(ended.code, ended.stderr).toBe(0);
  const masks = ['kidney_left', 'liver', 'spleen', 'tumour'].map((each) => `organs/${each}.nii.gz`);
  const written = ['whole', 'organs/segments'].flatMap((stem) =>
    ['rtstruct.dcm', 'seg.dcm', 'seg.nrrd'].map((ending) => `${stem}.${ending}`),
  );
  expect(namesIn(at('Output'))).toEqual([...written, ...masks, 'whole.nii.gz'].sort());
  const { conversion } = recordIn(at('Output'));
  expect(conversion.problems).toEqual([]);
  expect(conversion.outputs.slice(3)).toEqual(
    ['dicom-seg', 'rtstruct', 'nrrd'].flatMap((as, index) =>
      masks.map((from) => ({
        from,
        as,
        name: `organs/segments.${['seg.dcm', 'rtstruct.dcm', 'seg.nrrd'][index]}`,
      })),
    ),
  );
  const seg = at('Output', 'organs', 'segments.seg.dcm');
  const named = [
    ['Kidney left', '#0080ff'],
    ['Liver', '#dd8265'],
    ['Tumour', '#00ff00'],
  ];
  for (const file of [seg, at('Output', 'organs', 'segments.seg.nrrd')])
    expect((await openVolume(file)).labels?.map(({ name, colour }) => [name, colour])).toEqual(named);
  const like = ['--like', scan];
  const again = await run('convert', at('Output', 'organs'), ...like, '--as', 'dicom-seg', '-o', 'seg.dcm');
  expect(again.code, again.stderr).toBe(0);
  expect(readFileSync(at('seg.dcm'))).toEqual(readFileSync(seg));
  const map = await run('convert', at('Output', 'organs'), ...like, '--as', 'dicom-labelmap');
  expect(map.code, map.stderr).toBe(1);
  expect(map.stderr).toContain(
    'Liver and Tumour overlap, and a map has one label for each voxel: give --as dicom-seg',
  );
});

test.each<[string, Readonly<Record<string, Uint8Array>>, object]>([
  ['names that are no structures', { 'one.nii.gz': blocks(0, 9), 'two.nii.gz': blocks(9, 19) }, {}],
  [
    'members of an ensemble',
    { 'liver_fold_0.nii.gz': blocks(0, 9), 'liver_fold_1.nii.gz': blocks(0, 8) },
    {},
  ],
  [
    'a mask and its uncertainty',
    { 'liver.nii.gz': blocks(0, 9), 'liver_uncertainty.nii.gz': blocks(0, 8) },
    {},
  ],
  [
    'a mask of two values',
    {
      'liver.nii.gz': blocks(0, 9),
      'spleen.nii.gz': blocks(20, 29).map((each, at) => (at === 28 ? 2 : each)),
    },
    {},
  ],
  [
    'a value that the app calls something else',
    { 'lesion_1.nii.gz': blocks(0, 9), 'lesion_2.nii.gz': blocks(9, 19) },
    { 1: { name: 'Tumour', color: '#00ff00' } },
  ],
  ['folders', { 'a/liver.nii.gz': blocks(0, 9), 'b/spleen.nii.gz': blocks(9, 19) }, {}],
  [
    'a file with the name of theirs',
    { 'liver.nii.gz': blocks(0, 9), 'spleen.nii.gz': blocks(9, 19), 'segments.nii.gz': labels },
    {},
  ],
])('Masks that may not belong together stay separate files: %s', async (_, masks, names) => {
  const source = await writeSeries();
  const results = Object.entries(masks).map(([name, data]) => [name, { affine: source.affine, data }]);
  const { run, at } = await withApp(Object.fromEntries(results), names);
  const ended = await run('infer', directoryOf(source), '--as', 'dicom-seg');
  expect(ended.code, ended.stderr).toBe(0);
  const { conversion } = recordIn(at('Output'));
  expect(conversion.outputs.map(({ name }: { name: string }) => name)).toEqual(
    Object.keys(masks)
      .sort()
      .map((name) => name.replace('.nii.gz', '.seg.dcm')),
  );
});

test('Masks of the scans of two people never become one file, even on the same grid', async () => {
  const source = await writeSeries();
  const { run, at } = await withApp({
    'liver_first.nii.gz': { affine: source.affine, data: blocks(0, 9) },
    'spleen_second.nii.gz': { affine: source.affine, data: blocks(9, 19) },
  });
  for (const name of ['first', 'second'])
    await plant(
      at(name),
      Object.fromEntries(source.files.map((file) => [path.basename(file), readFileSync(file)])),
    );
  const ended = await run('infer', '-i', 'first', '-i', 'second', '--as', 'dicom-seg');
  expect(ended.code, ended.stderr).toBe(0);
  expect(namesIn(at('Output')).filter((name) => name.endsWith('.dcm'))).toEqual([
    'liver_first.seg.dcm',
    'spleen_second.seg.dcm',
  ]);
});

test('A scan that belongs to no study is refused before anything is sent', async () => {
  const source = await writeSeries();
  const { run, at, runs } = await withApp({ 'mask.nii.gz': { affine: source.affine, data: labels } });
  await writeNifti(at('scan.nii.gz'), { size, affine: source.affine, data: new Int16Array(labels.length) });
  for (const more of [[], ['--each']]) {
    const refused = await run('infer', 'scan.nii.gz', '--as', 'dicom-seg', ...more);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/scan\.nii\.gz' is no DICOM series, .* give --as nrrd/s);
  }
  expect(runs()).toBe(0);
  const taken = await run('infer', 'scan.nii.gz', '--as', 'nrrd');
  expect(taken.code, taken.stderr).toBe(0);
  expect(readdirSync(at('Output'))).toContain('mask.seg.nrrd');
});

test('A mask on another grid gets the nearest labels with a note, and --strict refuses it and keeps the original', async () => {
  const source = await writeSeries();
  const affine = source.affine.map(([i, j, k, offset]) => [i, j, k, offset + i / 3]) as unknown as Affine;
  const { run, at } = await withApp({ 'mask.nii.gz': { affine, data: labels } });
  const nearest = await run('infer', directoryOf(source), '--as', 'dicom-seg');
  expect(nearest.code, nearest.stderr).toBe(0);
  expect(nearest.stderr).toMatch(/mask\.nii\.gz lies on another grid than .* nearest voxels/);
  const strict = await run('infer', directoryOf(source), '--as', 'dicom-seg', '--strict');
  expect(strict.code).toBe(1);
  expect(strict.stderr).toMatch(/mask\.nii\.gz is not converted to dicom-seg: .* lies on another grid/);
  expect(readdirSync(at('Output-2')).filter((name) => name.startsWith('mask'))).toEqual(['mask.nii.gz']);
  expect(recordIn(at('Output-2')).conversion.problems).toHaveLength(1);
});

test('A mask that fits the scans of two people is put next to neither of them', async () => {
  const source = await writeSeries();
  const other = await writeSeries({
    more: [element(0x0020000d, 'UI', '1.2.4'), element(0x0020000e, 'UI', '1.2.4.1')],
  });
  const { run, at } = await withApp({ 'mask.nii.gz': { affine: source.affine, data: labels } });
  const ended = await run('infer', '-i', directoryOf(source), '-i', directoryOf(other), '--as', 'dicom-seg');
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain(`fits ${source.name} and ${other.name} equally well`);
  expect(readdirSync(at('Output'))).not.toContain('mask.seg.dcm');
});

test('Nothing is written for a mask without labels, and this is not a failure', async () => {
  const source = await writeSeries();
  const { run, at } = await withApp({
    'mask.nii.gz': { affine: source.affine, data: new Uint8Array(labels.length) },
  });
  const ended = await run('infer', directoryOf(source), '--as', 'dicom-seg', '--as', 'rtstruct');
  expect(ended.code, ended.stderr).toBe(0);
  expect(ended.stderr).toMatch(/has no labels/);
  expect(readdirSync(at('Output')).filter((name) => name.startsWith('mask'))).toEqual(['mask.nii.gz']);
});

test.each(['cases', 'bids'])('A cohort converts each case, or does not call it done: %s', async (layout) => {
  const source = await writeSeries();
  const { run, at, runs } = await withApp({ 'mask.nii.gz': { affine: source.affine, data: labels } });
  await plant(at('scans'), {
    ...Object.fromEntries(source.files.map((file) => [`sub-01/${path.basename(file)}`, readFileSync(file)])),
  });
  const words = ['infer', '--each', 'scans', '-o', 'Out', '--layout', layout];
  expect((await run(...words)).code).toBe(0);
  expect(runs()).toBe(1);
  const converted = await run(...words, '--as', 'dicom-seg');
  expect(converted.code, converted.stderr).toBe(0);
  const files = readdirSync(at('Out'), { recursive: true }).map(String);
  const seg = files.find((name) => name.endsWith('.seg.dcm')) ?? '';
  expect((await openVolume(at('Out', seg))).labels?.map(({ name }) => name)).toEqual([
    'Liver',
    'Label 2',
    'Tumour',
  ]);
  const record = JSON.parse(
    readFileSync(
      at('Out', files.find((name) => /record\.json$|_remote-app.*\.json$/.test(name)) ?? ''),
      'utf8',
    ),
  );
  const base = path.basename(seg);
  expect(record.conversion.outputs).toEqual([
    { from: base.replace('.seg.dcm', '.nii.gz'), as: 'dicom-seg', name: base },
  ]);
  const before = runs();
  const again = await run(...words, '--as', 'dicom-seg');
  expect(again.stderr).toMatch(/1 case: 1 done \(1 of them before\)/);
  expect(runs()).toBe(before);
});
