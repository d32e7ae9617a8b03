import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { dicomFile } from '../../support/dicom-files.js';
import { writeImage } from './images.js';
import { APP, operate, refusalOf, refusalOfProgram, runNode, tissue, workspace } from './program.js';

const USAGE: [string[], string][] = [
  [['train'], "Unknown operation 'train'"],
  [['infer'], 'infer needs --inputs.'],
  [['infer', '--inputs'], '--inputs needs at least one value.'],
  [['infer', '--inputs', 'a', '--gt', 'b'], 'infer does not take --gt.'],
  [['infer', '--inputs', 'a', '--wrong', 'b'], 'This app takes no --wrong for infer.'],
  [['infer', '--inputs', 'a', '--inputs', 'b'], 'this app takes one channel'],
  [['infer', '--inputs', 'a', '--tta', 'two'], "--tta needs an integer of 0 or more, not 'two'."],
  [['infer', '--inputs', 'a', '--tta', '8'], '--tta 8 is more than the 7 that this app has.'],
  [['infer', '--inputs', 'a', '--mc', '17'], '--mc 17 is more than the 16 that this app allows.'],
  [['infer', '--inputs', 'a', '--ensemble', '9'], 'The app has 3 checkpoints (CV_0, CV_1, CV_2)'],
  [['infer', '--inputs', 'a', '--ensemble_models', 'Nope'], "no checkpoint 'Nope'; it has CV_0, CV_1, CV_2."],
  [['infer', '--inputs', 'a', '--set', 'colour=1'], "has no 'colour'; it has dropout, seed, stack."],
  [['infer', '--inputs', 'a', '--set', 'dropout=much'], "--set dropout needs a number, not 'much'."],
  [['infer', '--inputs', 'a', '--set', 'dropout=2'], "'dropout' must be a number from 0 to 0.9, not '2'."],
  [['infer', '--inputs', 'a', '--prediction_file', '../x.yml'], "'../x.yml' is not inside the app"],
  [['fine-tune', '--dataset', 'd'], 'fine-tune needs a NAME'],
  [['fine-tune', '../up', '--dataset', 'd'], 'fine-tune needs a NAME'],
  [['fine-tune', 'N', '--dataset', 'd', '--lr', '-1'], "--lr needs a number above 0, not '-1'."],
];

test.each(USAGE)('The command line %j is rejected', async (args, sentence) => {
  const fault = await operate(args, await workspace()).then(
    () => undefined,
    (cause) => cause,
  );
  expect([fault.constructor.name, fault.message]).toEqual(['UsageError', expect.stringContaining(sentence)]);
  expect(fault.message).not.toContain('\n');
});

test.each([...USAGE.slice(0, 1), ...USAGE.slice(-1)])(
  'A usage error exits with code 2: %j',
  async (args, sentence) => {
    const run = await tissue(args, await workspace());
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(sentence);
    expect(run.stderr).toMatch(/^[^\n]+\n$/);
  },
);

test('One sentence names a file that cannot be used', async () => {
  const cwd = await workspace();
  await writeFile(path.join(cwd, 'text.nii.gz'), 'hello');
  await mkdir(path.join(cwd, 'empty'));
  await mkdir(path.join(cwd, 'broken'));
  await writeFile(
    path.join(cwd, 'broken/slice.dcm'),
    Buffer.concat([Buffer.alloc(128), Buffer.from('DICM rest')]),
  );
  await writeImage(path.join(cwd, 'vector.nii.gz'), new Float32Array(128), { frames: 2 });
  const sentences = {
    'gone.nii.gz': 'gone.nii.gz does not exist.',
    'text.nii.gz':
      'text.nii.gz cannot be read as a volume: give a NIfTI, NRRD, MetaImage, FreeSurfer or DICOM file, or a directory with a DICOM series.',
    empty: 'empty holds no DICOM slices.',
    broken: 'broken/slice.dcm is cut short or damaged: copy it again from the original.',
    'vector.nii.gz': 'vector.nii.gz has 2 values per voxel, and a volume with one is needed.',
  };
  for (const [file, sentence] of Object.entries(sentences)) {
    expect(await refusalOf([file], cwd)).toBe(sentence);
  }
  expect(await refusalOfProgram('vector.nii.gz', cwd)).toBe(sentences['vector.nii.gz']);
});

test('An unusable file does not prevent the others from being computed', async () => {
  const cwd = await workspace();
  await writeFile(path.join(cwd, 'text.nii.gz'), 'hello');
  await writeImage(path.join(cwd, 'good.nii.gz'), new Float32Array(64).fill(1));
  await writeImage(path.join(cwd, 'last.nii.gz'), new Float32Array(64).fill(1));
  const sentence = await refusalOf(['good.nii.gz', 'text.nii.gz', 'last.nii.gz'], cwd);
  expect(sentence).toMatch(
    /^text\.nii\.gz cannot be read as a volume: .* 2 of 3 cases are computed: 'remote-app result JOB --partial' fetches them\.$/,
  );
  expect((await readdir(path.join(cwd, 'Refused'))).sort()).toEqual(['good.nii.gz', 'last.nii.gz']);
});

test('Slices of a tilted gantry are refused', async () => {
  const cwd = await workspace();
  await mkdir(path.join(cwd, 'series'));
  for (const at of [0, 1, 2, 3]) {
    const place = { size: [4, 4] as const, spacing: [9, 9], position: [0, 3.6 * at, 9 * at] };
    const bytes = dicomFile({ pixels: new Int16Array(16), ...place });
    await writeFile(path.join(cwd, `series/${at}.dcm`), bytes);
  }
  expect(await refusalOf(['series'], cwd)).toContain('series has slices that are tilted by 22 degrees');
});

test('The uncertainty operation refuses an image that is not a stack, and says how to make one', async () => {
  const cwd = await workspace();
  await writeImage(path.join(cwd, 'flat.nii.gz'), new Float32Array(64));
  const run = await tissue(['uncertainty', '--output', 'U', '--inputs', 'flat.nii.gz'], cwd);
  expect(run.code).toBe(1);
  expect(run.stderr).toContain(
    "flat.nii.gz has one value per voxel: give the stack that 'infer -uncertainty' writes",
  );
});

test('An empty volume gets only background labels', async () => {
  const cwd = await workspace();
  await writeImage(path.join(cwd, 'blank.nii.gz'), new Int16Array(64));
  expect(await tissue(['infer', '--output', 'O', '--inputs', 'blank.nii.gz'], cwd)).toMatchObject({
    code: 0,
    stderr: '',
  });
});

test('The phantom generator refuses what it cannot make', async () => {
  const cwd = await workspace();
  const run = await runNode(path.join(APP, 'phantom.mjs'), ['--out', '.', '--contrast', 'ct'], cwd);
  expect(run).toMatchObject({ code: 2, stderr: "--contrast must be one of pd, t1, t2, not 'ct'.\n" });
});
