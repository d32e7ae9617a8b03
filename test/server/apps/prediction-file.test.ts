import { expect, test } from 'vitest';
import { readPrediction } from '../../../src/server/apps/prediction.js';
import { plant, temporary } from '../../support/temporary.js';

/** What is read of this `Prediction.yml`. */
async function read(text: string) {
  await using directory = await temporary();
  await plant(directory.path, { 'Prediction.yml': text });
  return readPrediction(directory.path);
}

const nothing = { patchSize: null, parameters: null };

test('--set can change the values of the model, but not its structure and training', async () => {
  const text = `Predictor:
  Model:
    classpath: model:Net
    Net:
      iterations: 300
      levels: {coarse: {step: 2.5}}
      optimizer: {name: Adam}
      schedulers: {}
  Dataset:
    Patch:
      patch_size: [0, 96, 96]
`;
  expect(await read(text)).toEqual({
    patchSize: [0, 96, 96],
    parameters: {
      values: { iterations: 300, levels: { coarse: { step: 2.5 } } },
      constraints: {},
      path: 'Predictor.Model.Net',
    },
  });
});

test.each([
  ['that is not there', ''],
  ['without a model', 'Predictor: {Dataset: {}}'],
  ['whose model has nothing to change', 'Predictor: {Model: {classpath: a, Net: {optimizer: {}}}}'],
  [
    'whose model has nothing to change, and something beside it',
    'Predictor: {Model: {Net: {optimizer: {}}, Other: {a: 1}}}',
  ],
  ['whose value holds itself', 'Predictor: {Model: {Net: &a {self: *a}}}'],
  [
    'that is too much once it is written out',
    `Predictor: {Model: {Net: {a: &a [${'x,'.repeat(9999)}], b: *a, c: *a, d: *a}}}`,
  ],
])('A prediction file %s yields no facts', async (_, text) => {
  expect(await read(text)).toEqual(nothing);
});
