import { expect, test } from 'vitest';
import { numbersOf } from '../../../src/client/case/numbers.js';
import { hashOutputs } from '../../../src/client/case/record.js';
import { plant, temporary } from '../../support/temporary.js';

/** The numbers of a result with these files, and what could not be read of them. */
async function numbersIn(files: Readonly<Record<string, string>>, labels = {}) {
  await using directory = await temporary();
  await plant(directory.path, files);
  return numbersOf(directory.path, await hashOutputs(directory.path), labels);
}

test('The numbers of a case are read from the reports of KonfAI and of apps', async () => {
  const { numbers, numbers_unread: unread } = await numbersIn({
    'measurements.json': JSON.stringify({
      settings: { threshold: 1 },
      cases: [{ case: 'a', volume_ml: 2, labels: { 1: { dice: 0.5 } } }],
    }),
    'Evaluations/Metric_TRAIN.json': JSON.stringify({
      aggregates: { 'Seg:Dice': { mean: 9 } },
      case: { 'Seg:Dice': { CASE_000: 0.75 }, volume_ml: { CASE_000: 3 } },
    }),
    'Uncertainties/Metric_TRAIN.json': '{ damaged',
    'Uncertainty.json': JSON.stringify({ settings: { threshold: 2 }, cases: [{ case: 'a', max: 0.25 }] }),
    'settings.json': '{"lr": 1}',
  });
  expect(numbers).toEqual({
    'Seg:Dice': 0.75,
    volume_ml: 3,
    'label_1.dice': 0.5,
    'uncertainty.max': 0.25,
    'measurements/volume_ml': 2,
  });
  expect(unread).toEqual(["The numbers of 'Uncertainties/Metric_TRAIN.json' cannot be read: it is not JSON"]);
});

test('Labels are named by the report or the app, and numbers of several files by what distinguishes the files', async () => {
  const labels = { 1: { name: 'Brain', dice: 0.9 }, 2: { dice: 0.8 } };
  const of = async (cases: object[]) =>
    (
      await numbersIn(
        {
          'Evaluations/Evaluation.json': JSON.stringify({ cases, aggregate: { all: { dice: { mean: 1 } } } }),
          'Uncertainties/Uncertainty.json': JSON.stringify({ cases: [{ case: 'x', mean: 0.1 }] }),
          'measurements.json': '{"mean": 3}',
        },
        { 1: { name: 'Head' }, 2: { name: 'White matter' } },
      )
    ).numbers;
  const others = { 'uncertainty.mean': 0.1, 'measurements.mean': 3 };
  expect(await of([{ case: 'x', labels }])).toEqual({
    'brain.dice': 0.9,
    'white_matter.dice': 0.8,
    ...others,
  });
  expect(
    await of([
      { case: 'sub-01_mask.nii.gz', labels },
      { case: 'sub-01_lesion.nii.gz', labels: { 1: { name: 'Lesion', dice: 0.5 } } },
    ]),
  ).toEqual({ 'mask.brain.dice': 0.9, 'mask.white_matter.dice': 0.8, 'lesion.lesion.dice': 0.5, ...others });
  const same = { case: 'mask.nii', labels: { 1: { dice: 0.7 } } };
  expect(await of([same, same])).toEqual({ '1.head.dice': 0.7, '2.head.dice': 0.7, ...others });
});

test('Labels that share a name get their values as a suffix, and labels without a name are called by their values', async () => {
  const labels = {
    ...{
      1: { name: ' Lesion  core' },
      2: { name: 'lesion core' },
      12: {},
      13: { name: ' ' },
      14: { name: null },
    },
    ...{ '3d': {}, 'left 3': {} },
  };
  const measured = Object.entries(labels).map(([value, each], at) => [value, { ...each, ml: at }]);
  const { numbers } = await numbersIn({
    'measurements.json': JSON.stringify({ labels: Object.fromEntries(measured) }),
    'Uncertainty.json': '{"entropy": 0.5}',
  });
  expect(numbers).toEqual({
    'lesion_core_1.ml': 0,
    'lesion_core_2.ml': 1,
    'label_12.ml': 2,
    'label_13.ml': 3,
    'label_14.ml': 4,
    '3d.ml': 5,
    'left_3.ml': 6,
    'uncertainty.entropy': 0.5,
  });
});

test.each(['measurements.json', 'Evaluation.json'])(
  'NaN and Infinity, which Python writes for an absent organ in %s, are skipped, and other numbers are kept',
  async (name) => {
    const report =
      '{"liver_ml": 1500.5, "spleen_ml": NaN, "up": Infinity, "down": -Infinity, "note": "NaN, \\"Infinity\\"", "left": [NaN, 2], "large": 1e999}';
    expect(await numbersIn({ [name]: report })).toEqual({
      numbers: { liver_ml: 1500.5, 'left.1': 2 },
      numbers_unread: [],
    });
  },
);

test('A NaN metric does not hide the others in a report of KonfAI', async () => {
  const report =
    '{"case": {"Seg:Dice": {"CASE_000": NaN}, "Seg:MAE": {"CASE_000": 0.5}, "PSNR": {"A": 1, "B": 2}}}';
  expect(await numbersIn({ 'Metric_TRAIN.json': report })).toEqual({
    numbers: { 'Seg:MAE': 0.5, 'PSNR.A': 1, 'PSNR.B': 2 },
    numbers_unread: [],
  });
});

test.each([
  [
    (4 << 20) + 1,
    1003,
    1000,
    undefined,
    [
      "The numbers of 'Evaluation.json' are not read, since it is larger than 4 MiB",
      "3 numbers of 'measurements.json' are left out: a case has at most 1000",
    ],
  ],
  [4 << 20, 999, 1000, 1, []],
])('In a report of %i bytes and %i numbers, %i are read', async (size, count, read, dice, unread) => {
  await using directory = await temporary();
  const many = Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, at]));
  await plant(directory.path, {
    'Evaluation.json': '{"dice": 1}',
    'measurements.json': JSON.stringify(many),
  });
  const outputs = [
    { name: 'Evaluation.json', size },
    { name: 'measurements.json', size: 9 },
  ];
  const found = numbersOf(directory.path, outputs, {});
  expect([Object.keys(found.numbers).length, found.numbers.dice, found.numbers.n998]).toEqual([
    read,
    dice,
    998,
  ]);
  expect(found.numbers_unread).toEqual(unread);
});

test.each([
  ['[1, 2]', {}],
  ['7', {}],
  ['{"cases": []}', {}],
  ['{"cases": [null]}', {}],
  ['{"case": {"dice": 0.5}}', { dice: 0.5 }],
  ['{"case": "a", "dice": 0.5}', { dice: 0.5 }],
  ['{"cases": [{"dice": 1}, {"case": null, "dice": 2}, null]}', { '1.dice': 1, '2.dice': 2 }],
  ['{"labels": [1, 2]}', { 'labels.0': 1, 'labels.1': 2 }],
])('Only the numbers of the case are read from an unusual report: %s', async (report, numbers) => {
  expect(await numbersIn({ 'measurements.json': report })).toEqual({ numbers, numbers_unread: [] });
});

test('Only numbers with vague names get the name of their report', async () => {
  const vague = ['mean', 'median', 'min', 'max', 'std', 'sum', 'count', 'threshold', 'components', 'passes'];
  const report = Object.fromEntries([...vague, 'means', 'liver.mean'].map((name) => [name, 1]));
  const { numbers } = await numbersIn({ 'sub/Evaluation.json': JSON.stringify(report) });
  expect(Object.keys(numbers)).toEqual([...vague.map((name) => `evaluation.${name}`), 'means', 'liver.mean']);
});

test('A report that no longer exists is listed as unread', () => {
  const numbers = numbersOf('/nowhere', [{ name: 'measurements.json', size: 2 }], {});
  expect(numbers).toEqual({
    numbers: {},
    numbers_unread: [
      expect.stringMatching(/^The numbers of 'measurements\.json' cannot be read: ENOENT: no such file/),
    ],
  });
});
