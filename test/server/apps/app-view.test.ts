import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { viewAppDirectory } from '../../../src/server/apps/index.js';
import { isWeights } from '../../../src/server/weights.js';
import { temporary } from '../../support/temporary.js';

test('An app has its own checkpoints, but none from its packages or its Python environment', async () => {
  await using root = await temporary();
  const directory = path.join(root.path, 'node_modules/app');
  const packages = path.join(directory, 'node_modules/other');
  const environment = path.join(directory, 'venv/lib');
  for (const each of [packages, environment]) mkdirSync(each, { recursive: true });
  const manifest = {
    display_name: 'A',
    short_description: 'a',
    description: 'a',
    tta: 0,
    mc_dropout: 0,
    command: ['true'],
  };
  writeFileSync(path.join(directory, 'app.json'), JSON.stringify(manifest));
  for (const file of [
    path.join(directory, 'CV_0.pt'),
    path.join(packages, 'CV_1.pt'),
    path.join(environment, 'CV_2.pt'),
    path.join(environment, '..', 'pyvenv.cfg'),
  ])
    writeFileSync(file, '');
  expect(viewAppDirectory('app', directory)).toMatchObject({ checkpoints_name_available: ['CV_0.pt'] });
});

test('Weights are recognized by their file extension', () => {
  const endings = ['pt', 'pth', 'ckpt', 'onnx', 'safetensors', 'bin', 'h5', 'PT'];
  expect(endings.filter((ending) => !isWeights(`a.${ending}`))).toEqual([]);
  expect(['a.txt', 'pt', 'a.ptx', 'a.pt.txt'].filter(isWeights)).toEqual([]);
});
