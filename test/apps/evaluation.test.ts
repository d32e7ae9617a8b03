import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { writeVolume } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { temporary } from '../support/temporary.js';

const python = process.env.PYTHON ?? 'python3';
const lacksPackages = spawnSync(python, ['-c', 'import numpy, scipy, SimpleITK']).status !== 0;

/** Runs the evaluation of apps made by `init` on a prediction and a truth, for an app that knows the labels 1 and 2. */
const program = `
import sys
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
import evaluation
file, truth = map(Path, sys.argv[2:4])
options = SimpleNamespace(evaluation_file='Evaluation.yml', gt=[[truth]], mask=[[Path(each)] for each in sys.argv[4:]])
evaluation.evaluate([file], options, file.parent / 'E', [(1, 'liver', [1, 2]), (2, 'tumour', [2])])
`;

import { straight } from '../support/affine.js';

test.skipIf(lacksPackages)('Apps made by init refuse or report ground truth with other labels', async () => {
  await using directory = await temporary();
  const shared = path.resolve('templates/from/shared');
  // What the templates of a framework have beside it.
  await mkdir(path.join(directory.path, 'app'));
  for (const name of ['evaluation.py', 'cases.py', 'Evaluation.yml'])
    await writeFile(path.join(directory.path, 'app', name), await readFile(path.join(shared, name)));
  const evaluated = async (values: readonly number[], inside?: readonly number[]) => {
    const [file, truth] = ['prediction.mha', 'truth.mha'].map((name) => path.join(directory.path, name));
    const grid = {
      size: [4, 1, 1],
      affine: straight([-1, -1, 1]),
    } as const;
    await writeVolume(file as string, { ...grid, data: Uint8Array.of(0, 1, 2, 0) });
    await writeVolume(truth as string, { ...grid, data: Float32Array.from(values) });
    const args = ['-c', program, path.join(directory.path, 'app'), file as string, truth as string];
    if (inside) {
      const mask = path.join(directory.path, 'mask.nii');
      await writeVolume(mask, { ...grid, data: Float32Array.from(inside) });
      args.push(mask);
    }
    const { status, stdout, stderr } = spawnSync(python, args, { encoding: 'utf8' });
    return { status, said: stdout + stderr };
  };
  expect(await evaluated([0, 255, 7, 0])).toMatchObject({
    status: 1,
    said: expect.stringContaining('truth.mha has the values 7, 255, and the labels of this app are 1, 2'),
  });
  expect((await evaluated([0, 0.5, 1, 0])).said).toContain('has the value 0.5, which is not a label');
  const scaled = await evaluated([0, 0.996, 2.0000002, 0]);
  expect([scaled.status, scaled.said]).toEqual([
    0,
    expect.stringContaining('Dice liver 1.000, tumour 1.000'),
  ]);
  // Some programs write NaN outside of a mask.
  const masked = await evaluated([0, 2, 2, 2], [0, Number.NaN, 1, Number.NaN]);
  expect(masked.said).toContain('Dice liver 1.000, tumour 1.000');
  const more = await evaluated([0, 1, 2, 9]);
  expect(more.said).toContain(
    'truth.mha has the values 9, which are not labels of this app: they are not compared',
  );
  expect(more.said).toContain('Dice liver 1.000, tumour 1.000');
});
