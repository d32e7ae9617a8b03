import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isSameGeometry, readVolume, type Volume, writeNifti } from '@remote-app/volumes';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { straight } from '../../support/affine.js';
import { ResidentWorker } from '../../support/resident-worker.mjs';
import { APP, ball, brain, load, SERIES } from './program.js';

const { parseArguments } = await load('lib/arguments.mjs');
const { description } = JSON.parse(await readFile(path.join(APP, 'app.json'), 'utf8'));

let cwd = '';
let cold = { code: -1, stdout: '', stderr: '' };
/** One inference by the program, which several tests look at: the network takes seconds. */
beforeAll(async () => {
  cwd = await mkdtemp(path.join(tmpdir(), 'brain-test-'));
  const words = ['infer', '--cpu', '2', '--output', 'Cold', '--inputs', SERIES];
  cold = await brain(words, cwd);
}, 240_000);
afterAll(() => rm(cwd, { recursive: true, force: true }));

const at = (...names: string[]) => path.join(cwd, ...names);
const json = async (...names: string[]) => JSON.parse(await readFile(at(...names), 'utf8'));

/** An Int16Array of a volume in memory, and a file of it. */
async function plant(name: string, volume: Pick<Volume, 'size' | 'affine' | 'data'>): Promise<string> {
  await writeNifti(at(name), volume);
  return name;
}

test('A head MR series yields a mask of plausible size and an extracted brain, in the same geometry', async () => {
  expect(cold.stderr).toBe('');
  expect((await readdir(at('Cold'))).sort()).toEqual([
    'measurements.json',
    'volume_brain.nii.gz',
    'volume_mask.nii.gz',
  ]);
  const [scan, mask, inside] = await Promise.all(
    [SERIES, at('Cold/volume_mask.nii.gz'), at('Cold/volume_brain.nii.gz')].map((file) => readVolume(file)),
  );
  if (!scan || !mask || !inside) throw new Error('A volume is missing');
  expect([isSameGeometry(scan, mask), isSameGeometry(scan, inside)]).toEqual([true, true]);
  const { cases } = await json('Cold/measurements.json');
  const voxels = mask.data.filter((value: number) => value === 1).length;
  expect(cases).toMatchObject([{ case: 'volume', brain_voxels: voxels }]);
  expect(cases[0].brain_volume_ml).toBeGreaterThan(1250);
  expect(cases[0].brain_volume_ml).toBeLessThan(1330);
  const expected = scan.data.map((value, index) => (mask.data[index] === 1 ? value : 0));
  expect(Buffer.compare(Buffer.from(inside.data.buffer), Buffer.from(expected.buffer))).toBe(0);
});

test('A job says once what the networks were trained on, what they are not meant for, and how many threads are used', () => {
  expect(cold.stdout.split(description)).toHaveLength(2);
  expect(description).toContain('not for clinical use');
  expect(cold.stdout).toContain('On the CPU with 2 threads');
});

test('A worker runs job after job, with the same results as one started for a single job', async () => {
  const words = [process.execPath, path.join(APP, 'main.mjs'), 'resident', APP, '--gpu', '0'];
  await using worker = new ResidentWorker(words);
  expect(await worker.answer()).toEqual({ ready: true });
  const input = ['--inputs', SERIES];
  const first = await worker.run(['infer', APP, '--gpu', '0', '--output', at('Warm'), ...input]);
  expect(first.answer).toMatchObject({ exit_code: 0 });
  expect(first.log).toMatch(
    /On the CPU with \d+ threads?: GPU 0 was given, but ONNX Runtime has no CUDA libraries here/,
  );
  expect(await readFile(at('Warm/volume_mask.nii.gz'))).toEqual(
    await readFile(at('Cold/volume_mask.nii.gz')),
  );
  const all = ['--tta', '1', '-uncertainty', '--gt', at('Cold/volume_mask.nii.gz'), '--cpu', '1'];
  const second = await worker.run(['pipeline', APP, ...all, '--output', at('All'), ...input]);
  expect([second.answer, second.log]).toEqual([
    expect.objectContaining({ exit_code: 0 }),
    expect.stringContaining(description),
  ]);
  const { aggregate } = await json('All/Evaluations/Evaluation.json');
  expect(aggregate.all.dice.mean).toBeGreaterThan(0.97);
  expect(aggregate.all.dice.mean).toBeLessThan(1);
  const { cases } = await json('All/Uncertainties/Uncertainty.json');
  expect(cases).toMatchObject([{ case: 'volume_stack', passes: 2, map: 'volume_uncertainty.nii.gz' }]);
  expect(cases[0].max).toBeGreaterThan(0.1);
});

test('Only the first volume of a multi-volume file is read, with a note, and a bad file is reported at the end', async () => {
  const { readScan, eachCase, requireAll } = await load('lib/cases.mjs');
  const size = [4, 4, 4] as const;
  const affine = straight();
  await writeNifti(at('series.nii'), { size, affine, data: new Float32Array(192), frames: 3 });
  await writeFile(at('bad.nii'), 'no volume');
  const lines: string[] = [];
  const log = { line: (text: string) => lines.push(text.trim()) };
  const cases = ['series.nii', 'bad.nii', 'series.nii'].map((name) => ({ name, file: at(name) }));
  const done = await eachCase(cases, log, ({ file }: { file: string }) => readScan(file, log));
  expect(lines.filter((line) => line === 'series.nii holds 3 volumes: the first is taken.')).toHaveLength(2);
  expect(done.results).toMatchObject([{ frames: 1 }, { frames: 1 }]);
  expect(() => requireAll(done)).toThrow(/^bad\.nii cannot be read .* 2 of 3 cases are computed: /);
});

test('Evaluation compares masks and extracted brains, and measures surface distances', async () => {
  const scan = ball([20, 24, 16], straight([2, 2, 2]));
  const bright = scan.data.map((value) => (value > 50 ? value : 0));
  const shifted = bright.map((_, index) => (index % 20 === 0 ? 0 : Number(bright[index - 1])));
  await plant('truth.nii', { ...scan, data: bright });
  // Some programs write NaN around the brain.
  await plant('mask.nii', {
    ...scan,
    data: Float32Array.from(bright, (value) => (value > 0 ? 1 : Number.NaN)),
  });
  await plant('shifted.nii', { ...scan, data: shifted });
  const truth = ['--gt', 'truth.nii', 'truth.nii'];
  const run = await brain(['eval', '--output', 'E', '--inputs', 'mask.nii', 'shifted.nii', ...truth], cwd);
  expect(run.stderr).toBe('');
  const { cases, aggregate } = await json('E/Evaluation.json');
  expect(cases[0].labels[1]).toMatchObject({ name: 'Brain', dice: 1, hausdorff95_mm: 0, mean_surface_mm: 0 });
  expect(cases[1].labels[1]).toMatchObject({ hausdorff95_mm: 2, volume_similarity: expect.closeTo(1, 1) });
  expect(cases[1].labels[1].dice).toBeLessThan(1);
  expect(aggregate.all.dice).toMatchObject({ count: 2, max: 1 });
});

test('Evaluation refuses slices of a tilted gantry because it cannot measure distances along them', async () => {
  const mask = ball(
    [20, 24, 16],
    [
      [2, 0, 0, 0],
      [0, 2, 0.5, 0],
      [0, 0, 2, 0],
    ],
  );
  await plant('tilted.nii', mask);
  const run = await brain(['eval', '--output', 'T', '--inputs', 'tilted.nii', '--gt', 'tilted.nii'], cwd);
  expect(run.code).not.toBe(0);
  expect(run.stderr).toContain('tilted.nii has slices that are tilted by 14 degrees');
});

const usage: [string[], string][] = [
  [['fine-tune'], "Unknown operation 'fine-tune'"],
  [['infer', APP], 'infer needs --inputs.'],
  [['infer', APP, '--inputs', 'a', '--gt', 'b'], 'infer does not take --gt.'],
  [['infer', APP, '--inputs', 'a', '--patch_size', '9'], 'This app takes no --patch_size for infer.'],
  [['infer', APP, '--inputs', 'a', '--cpu', '0'], "--cpu needs an integer of 1 or more, not '0'."],
];

test.each(usage)('The command line %j is rejected', (words, sentence) => {
  expect(() => parseArguments(words)).toThrow(sentence);
});

test.each([
  ['--mc', '1', '--mc is not for this app'],
  ['--ensemble', '2', 'this app has one network'],
  ['--tta', '8', '--tta 8 is more than the 7 that this app has.'],
  ['--set', 'threshold=2', "--set threshold needs a number from 0 to 1, not '2'."],
  ['--set', 'colour=2', '--set colour=2: give NAME=VALUE, with a NAME of threshold.'],
])('%s %s is refused with exit code 2', async (flag, value, sentence) => {
  const run = await brain(['infer', flag, value, '--output', 'Refused', '--inputs', 'a.nii'], cwd);
  expect(run).toMatchObject({ code: 2, stderr: expect.stringContaining(sentence) });
});

test('One sentence names a file that cannot be used, and the person who sent it gets the same sentence', async () => {
  await writeFile(at('text.nii.gz'), 'hello');
  const scan = ball([4, 4, 4], straight());
  await plant('flat.nii', { ...scan, data: new Uint8Array(64) });
  await plant('small.nii', scan);
  const sentences: [string[], string][] = [
    [['infer', '--inputs', 'gone.nii'], 'gone.nii does not exist.'],
    [['infer', '--inputs', 'text.nii.gz'], 'text.nii.gz '],
    [['infer', '--inputs', 'flat.nii'], 'flat has the same value nearly everywhere'],
    [['uncertainty', '--inputs', 'flat.nii'], 'flat.nii has one value per voxel'],
    [['eval', '--inputs', 'flat.nii', '--gt', 'truth.nii'], 'flat.nii (4 x 4 x 4 voxels) and truth.nii'],
  ];
  for (const [words, sentence] of sentences) {
    const file = at('refusal.txt');
    const run = await brain([...words, '--output', 'Refused'], cwd, { REMOTE_APP_REFUSAL_FILE: file });
    const told = await readFile(file, 'utf8');
    expect([run.code, run.stderr]).toEqual([1, `${told}\n`]);
    expect(told).toContain(sentence);
    expect(told).not.toContain(cwd);
    await rm(file);
  }
});

test('The networks are those that source.json names, and come with the licence of their package', async () => {
  const {
    files,
    licence,
    package: name,
    version,
  } = JSON.parse(await readFile(path.join(APP, 'model/source.json'), 'utf8'));
  expect([name, version, licence]).toEqual(['deepbet', '1.0.2', 'MIT']);
  for (const [file, { sha256 }] of Object.entries(files) as [string, { sha256: string }][]) {
    const content = await readFile(path.join(APP, 'model', file));
    expect(createHash('sha256').update(content).digest('hex'), file).toBe(sha256);
  }
  expect((await readdir(path.join(APP, 'model'))).sort()).toEqual(
    [...Object.keys(files), 'LICENSE', 'source.json'].sort(),
  );
  expect(await readFile(path.join(APP, 'model/LICENSE'), 'utf8')).toMatch(/^MIT License\n\nCopyright /);
});

test('The package.json of the app names every package that it imports, and its helper is the one that `init` writes', async () => {
  const names = await readdir(APP, { recursive: true });
  const programs = names.filter((name) => name.endsWith('.mjs') && !name.includes('node_modules'));
  const texts = await Promise.all(programs.map((name) => readFile(path.join(APP, name), 'utf8')));
  const imported = texts
    .flatMap((text) => [...text.matchAll(/from '([^.'][^'/]*)[^']*'/g)].map(([, name = '']) => name))
    .filter((name) => !name.startsWith('node:'));
  const { dependencies } = JSON.parse(await readFile(path.join(APP, 'package.json'), 'utf8'));
  expect(Object.keys(dependencies).sort()).toEqual([...new Set(imported)].sort());
  const template = new URL('../../../templates/resident/javascript/resident.mjs', import.meta.url);
  expect(await readFile(path.join(APP, 'resident.mjs'), 'utf8')).toBe(await readFile(template, 'utf8'));
});
