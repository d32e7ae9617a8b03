import path from 'node:path';
import { expect, test } from 'vitest';
import { readJson, writeImage } from './images.js';
import { operate, phantom, tissue, workspace } from './program.js';

interface Metrics {
  dice: number;
  volume_ml: number;
  volume_similarity: number;
  hausdorff95_mm: number | null;
  mean_surface_mm: number | null;
}
interface Evaluation {
  cases: { case: string; labels: Record<string, Metrics> }[];
  aggregate: { all: { dice: { mean: number; min: number; max: number; count: number } } };
}

/** 4 x 4 x 4 voxels with a 2 x 2 x 2 cube of `label` from x on. */
function cube(x: number, label = 1): Uint8Array {
  return Uint8Array.from({ length: 64 }, (_, at) => {
    const inside = [at % 4, Math.floor(at / 4) % 4, Math.floor(at / 16)].map(
      (value, axis) => value - (axis === 0 ? x : 1),
    );
    return inside.every((value) => value === 0 || value === 1) ? label : 0;
  });
}

test('Ground truth compared with itself has perfect scores, for each label and case', async () => {
  const cwd = await workspace();
  await phantom(['--out', '.', '--size', '20', '--cases', '2'], cwd);
  const labels = ['label/head_001.nii.gz', 'label/head_002.nii.gz'];
  await operate(
    [
      'eval',
      '--evaluation_file',
      'Evaluation.yml',
      '--output',
      'E',
      '--inputs',
      ...labels,
      '--gt',
      ...labels,
    ],
    cwd,
  );

  const { cases, aggregate } = await readJson<Evaluation>(cwd, 'E/Evaluation.json');
  expect(cases.map((one) => one.case)).toEqual(['head_001', 'head_002']);
  expect(aggregate.all.dice).toEqual({ mean: 1, min: 1, max: 1, count: 10 });
  for (const { labels: metrics } of cases) {
    for (const label of Object.values(metrics))
      expect(label).toMatchObject({ hausdorff95_mm: 0, volume_similarity: 1 });
  }
});

test('A cube moved by one voxel of 2 mm has the metrics worked out by hand', async () => {
  const cwd = await workspace();
  const spacing = [2, 1, 1];
  await writeImage(path.join(cwd, 'a.nii.gz'), cube(1), { spacing });
  await writeImage(path.join(cwd, 'b.nii.gz'), cube(2), { spacing });
  await writeImage(
    path.join(cwd, 'mask.nii.gz'),
    Float32Array.from(cube(2), (value) => value || Number.NaN),
    { spacing },
  );
  const pair = ['--inputs', 'a.nii.gz', '--gt', 'b.nii.gz'];

  const log = await operate(['eval', '--output', 'E', ...pair], cwd);
  // Files are matched by their order alone: the log shows which truth each case has got.
  expect(log).toContain('a against b.nii.gz: Dice Scalp and muscle 0.500 (');
  const whole = await readJson<Evaluation>(cwd, 'E/Evaluation.json');
  // 8 voxels each, 4 of them common; the other 4 are one voxel of 2 mm away from the other surface.
  expect(whole.cases[0]?.labels).toEqual({
    1: {
      name: 'Scalp and muscle',
      dice: 0.5,
      volume_ml: 0.016,
      truth_volume_ml: 0.016,
      volume_similarity: 1,
      hausdorff95_mm: 2,
      mean_surface_mm: 1,
    },
  });

  await operate(['eval', '--output', 'M', ...pair, '--mask', 'mask.nii.gz'], cwd);
  const masked = await readJson<Evaluation>(cwd, 'M/Evaluation.json');
  // Inside the ground truth only the 4 common voxels of the prediction count: 2 * 4 / (4 + 8).
  expect(masked.cases[0]?.labels[1]?.dice).toBeCloseTo(2 / 3, 12);
});

test('A label that only one volume contains scores 0 and has no distance', async () => {
  const cwd = await workspace();
  await writeImage(path.join(cwd, 'a.mha'), cube(1, 4));
  await writeImage(path.join(cwd, 'b.mha'), cube(1, 3));
  await operate(['eval', '--output', 'E', '--inputs', 'a.mha', '--gt', 'b.mha'], cwd);

  const { cases } = await readJson<Evaluation>(cwd, 'E/Evaluation.json');
  expect(cases[0]?.labels[4]).toMatchObject({ dice: 0, hausdorff95_mm: null, mean_surface_mm: null });
  expect(cases[0]?.labels[3]).toMatchObject({ name: 'Grey matter', dice: 0 });
});

test('Ground truth without a label of the app is refused, and its other unknown labels are reported', async () => {
  const cwd = await workspace();
  await writeImage(path.join(cwd, 'a.nii.gz'), cube(1));
  await writeImage(path.join(cwd, 'bright.nii.gz'), cube(1, 255));
  await writeImage(
    path.join(cwd, 'scaled.nii.gz'),
    Float32Array.from(cube(1), (value) => value * 0.996),
  );
  await writeImage(
    path.join(cwd, 'more.nii.gz'),
    cube(1).map((value, at) => (at === 0 ? 9 : value)),
  );
  const evaluated = (truth: string) =>
    tissue(['eval', '--output', `E-${truth}`, '--inputs', 'a.nii.gz', '--gt', truth], cwd);
  const refused = await evaluated('bright.nii.gz');
  expect([refused.code, refused.stderr]).toEqual([
    1,
    'bright.nii.gz has the values 255, and the labels of this app are 1, 2, 3, 4, 5: give its labels these values.\n',
  ]);
  expect((await evaluated('scaled.nii.gz')).stdout).toContain('Dice Scalp and muscle 1.000');
  const more = await evaluated('more.nii.gz');
  expect(more.stdout).toContain('more.nii.gz has the values 9, which are not labels of this app.');
  expect(more.stdout).toContain('Dice Scalp and muscle 1.000');
});

test('Volumes with different positions are refused, and so are lists of different lengths', async () => {
  const cwd = await workspace();
  await writeImage(path.join(cwd, 'a.nii.gz'), cube(1));
  await writeImage(path.join(cwd, 'moved.nii.gz'), cube(1), { origin: [0, 0, 5] });

  // By the names that the person knows: the job's own directories say nothing.
  const [input, truth] = ['a.nii.gz', 'moved.nii.gz'].map((name) => path.join(cwd, name));
  const moved = await tissue(['eval', '--output', 'E', '--inputs', `${input}`, '--gt', `${truth}`], cwd);
  expect(moved.code).toBe(1);
  expect(moved.stderr).toBe(
    'a.nii.gz and moved.nii.gz differ in origin (0 0 0 against 0 0 5): resample one onto the other.\n',
  );

  const short = await tissue(
    ['eval', '--output', 'E', '--inputs', 'a.nii.gz', 'moved.nii.gz', '--gt', 'a.nii.gz'],
    cwd,
  );
  expect(short.code).toBe(1);
  expect(short.stderr).toContain('--gt has 1 file(s) for 2 of --inputs');
});
