import { expect, test } from 'vitest';
import { type OperationName, operationOf } from '../../../src/contract/index.js';
import { EarlyChecks, readFields, readForm, textOf } from '../../../src/server/submissions/read-form.js';

const fieldsOf = (fields: Readonly<Record<string, string>>) =>
  Object.entries(fields).map(([name, text]) => ({ name, text }));
const filesOf = (files: readonly string[]) =>
  files.map((each) => {
    const [field = '', name = ''] = each.split(':');
    return { field, name, path: `/incoming/${name}` };
  });
const read = (operation: OperationName, fields: Readonly<Record<string, string>>, files: readonly string[]) =>
  readForm(operationOf(operation), { fields: fieldsOf(fields), files: filesOf(files), bytes: 0 });

test('a form is read whole: values, options, files in their groups, and what is not known', () => {
  const form = read(
    'pipeline',
    {
      tta: '3',
      tag: ' my tag ',
      deidentified: 'true',
      gpu: '0,1',
      options: '{"patch_size":[1,2],"batch_size":4}',
      inputs_groups: '2,1',
      quiet: '',
      colour: 'red',
      epochs: ' ',
    },
    ['gt:gt.nii', 'inputs:dir/a.nii', 'inputs:b\\c.konfaidir.zip', 'inputs:d.nii', 'other:x', 'other:y'],
  );
  const names = [...form.groups].map(([{ name }, groups]) => [
    name,
    groups.map((group) => group.map((file) => file.name)),
  ]);
  expect({ ...form, groups: Object.fromEntries(names), given: [...form.given].sort() }).toEqual({
    values: expect.objectContaining({ tta: 3, gpu: [0, 1], patch_size: [1, 2], batch_size: 4 }),
    given: ['deidentified', 'gpu', 'tag', 'tta'],
    acceptedOptions: ['batch_size', 'patch_size'],
    groups: {
      inputs: [['dir/a.nii', 'b\\c.konfaidir.zip'], ['d.nii']],
      gt: [['gt.nii']],
      mask: [],
    },
    tag: 'my tag',
    deidentified: true,
    inputs: ['a.nii', 'c', 'd.nii'],
    ignored: ['colour', 'other'],
  });
  const least = read('infer', {}, ['inputs:a.nii']);
  expect([least.tag, least.deidentified, least.acceptedOptions, [...least.given], least.ignored]).toEqual([
    null,
    false,
    [],
    [],
    [],
  ]);
});

test.for<[OperationName, Record<string, string>, string[], string]>([
  ['infer', {}, [], "Field 'inputs' is required: send at least one file"],
  ['fine_tune', {}, ['dataset:a.zip', 'dataset:b.zip'], "Field 'dataset' takes one zip archive, got 2 files"],
  ['infer', { inputs: 'ct.nii' }, ['inputs:a'], "Field 'inputs' must be sent as a file"],
  ['infer', {}, ['inputs:a', 'tta:b'], "Field 'tta' must be sent as text, not as a file"],
  [
    'infer',
    { patch_size: '96' },
    ['inputs:a'],
    "Field 'patch_size' is an option: send it inside the JSON field 'options'",
  ],
  ['infer', { epochs: '3' }, ['inputs:a'], "Field 'epochs' belongs to fine_tune; infer has no such field"],
  [
    'infer',
    { inputs_groups: '20000,1' },
    ['inputs:a'],
    "Field 'inputs_groups' gives sizes that add up to 20001; a form has at most 20000 files",
  ],
  ['evaluate', { mask_groups: '1' }, ['inputs:a', 'gt:b'], "Field 'mask_groups' "],
])('a form of %s with %j and %j is refused: %s', ([operation, fields, files, sentence]) => {
  expect(() => read(operation, fields, files)).toThrow(sentence);
});

test('a text comes once, or is a list of all that came', () => {
  const fields = [
    { name: 'gpu', text: '0' },
    { name: 'tta', text: '1' },
    { name: 'gpu', text: '1' },
  ];
  expect([textOf(fields, 'gpu', true), textOf(fields, 'tta', false), textOf(fields, 'mc', true)]).toEqual([
    '0,1',
    '1',
    undefined,
  ]);
  expect(() => textOf(fields, 'gpu', false)).toThrow("Field 'gpu' was sent 2 times; send it once");
  const { values } = readFields(operationOf('infer'), [
    { name: 'ensemble_models', text: 'a.pt' },
    { name: 'ensemble_models', text: 'b.pt' },
  ]);
  expect(values.ensemble_models).toEqual(['a.pt', 'b.pt']);
});

test('sizes up to the number of files of a form are read', () => {
  const fields = fieldsOf({ inputs_groups: '19999,1' });
  expect(() => readFields(operationOf('infer'), fields)).not.toThrow();
});

test('the values before the first file are checked once, and each file field once', () => {
  const seen: unknown[] = [];
  const checks = new EarlyChecks(operationOf('infer'), ({ values }) => seen.push(values.tta));
  checks.beforeFile('inputs', fieldsOf({ tta: '2' }));
  checks.beforeFile('inputs', fieldsOf({ tta: 'x' }));
  checks.beforeFile('other', fieldsOf({ tta: '3' }));
  expect(seen).toEqual([2]);
  for (const name of ['tta', 'options'])
    expect(() => checks.beforeFile(name, [])).toThrow(`Field '${name}' must be sent as text, not as a file`);
  const late = new EarlyChecks(operationOf('infer'), () => {
    throw new Error('no such GPU');
  });
  expect(() => late.beforeFile('inputs', [])).toThrow('no such GPU');
  expect(() =>
    new EarlyChecks(operationOf('infer'), () => {}).beforeFile('inputs', fieldsOf({ tta: 'x' })),
  ).toThrow("Field 'tta'");
});
