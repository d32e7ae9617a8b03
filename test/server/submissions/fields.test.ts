import { describe, expect, test } from 'vitest';
import { operationOf } from '../../../src/contract/index.js';
import { readForm } from '../../../src/server/submissions/index.js';
import { least, options } from '../../support/form.js';
import { type FormValues, file } from '../../support/form.mjs';
import { sharedServer } from '../../support/server.js';
import { zipOf } from '../../support/zip.mjs';

const server = sharedServer({ gpus: 2 });
const { api } = server;
const fineTune = { dataset: file('data.zip', zipOf({ a: 'b' })) };

/** Each is 422, and the sentence names the field. */
async function isRefused(operation: string, form: FormValues, field: string): Promise<void> {
  expect(await api.refused(operation, form)).toEqual([422, expect.stringContaining(`'${field}'`)]);
}

describe('a field that is required', () => {
  test.for<[string, string, FormValues]>([
    ['infer', 'inputs', {}],
    ['evaluate', 'gt', { inputs: file('a.nii') }],
    ['evaluate', 'inputs', { gt: file('a.nii') }],
    ['uncertainty', 'inputs', {}],
    ['pipeline', 'gt', { inputs: file('a.nii') }],
    ['pipeline', 'inputs', { gt: file('a.nii') }],
    ['fine_tune', 'dataset', {}],
  ])('A missing field of %s is refused: %s', async ([operation, field, form]) => {
    await isRefused(operation, { quiet: '', ...form }, field);
  });
});

describe('a value of the wrong kind', () => {
  test.for<[string, string, string[]]>([
    ['infer', 'tta', ['x', '1.5', '-1', '1e3', '0x10', '2147483648', 'true', '１']],
    ['infer', 'mc', ['-1']],
    ['infer', 'ensemble', ['many', '-2']],
    ['infer', 'cpu', ['0', '-1', 'all']],
    ['infer', 'uncertainty', ['maybe', '2', 'ja']],
    ['infer', 'quiet', ['quiet']],
    ['infer', 'gpu', ['x', '-1', '0,x', '1.5', ',', '0;1']],
    ['infer', 'inputs_groups', ['x', '0,1', '-1,2', '2', '1,1', '0.5,0.5']],
    ['evaluate', 'gt_groups', ['2']],
    [
      'evaluate',
      'evaluation_file',
      ['/etc/passwd', '../x.yml', 'a/../../b', '..', '.', 'C:\\x', '\\x', '-x.yml'],
    ],
    ['infer', 'prediction_file', ['-rf', '--output', '/x', 'a\nb', 'a\0b', 'x'.repeat(5000)]],
    ['uncertainty', 'uncertainty_file', ['../../etc/shadow', '-u']],
    ['infer', 'ensemble_models', ['-a', 'CV_0.pt,-b', '../a.pt', '/a.pt', ',']],
    ['fine_tune', 'models', ['--dataset', 'a,../b']],
    ['fine_tune', 'name', ['-n', 'a/b', 'a\\b', '..', '.', 'n'.repeat(300), 'a\tb']],
    ['fine_tune', 'config_file', ['-c', '/c.yml', '..\\c.yml']],
    ['fine_tune', 'epochs', ['0', '-5', 'ten']],
    ['fine_tune', 'it_validation', ['0', '1.0']],
    ['fine_tune', 'lr', ['0', '-1', 'fast', 'NaN', 'inf', 'Infinity', '1e999', '0x1']],
  ])('A value of the wrong kind is refused by %s in %s', async ([operation, field, texts]) => {
    const form = operation === 'fine_tune' ? fineTune : least[operation as keyof typeof least];
    for (const text of texts) await isRefused(operation, { ...form, [field]: text }, field);
  });

  test('A value of the wrong kind is refused if it is text instead of a file, or a file instead of text', async () => {
    await isRefused('infer', { inputs: 'not a file' }, 'inputs');
    await isRefused('infer', { ...least.infer, tta: file('2') }, 'tta');
    await isRefused('fine_tune', { dataset: '/srv/data' }, 'dataset');
  });

  test('A field is refused if it comes twice', async () => {
    await isRefused('infer', { ...least.infer, tta: ['1', '2'] }, 'tta');
    await isRefused('fine_tune', { dataset: [fineTune.dataset, fineTune.dataset] }, 'dataset');
  });

  test('A field is refused if it belongs to another operation', async () => {
    await isRefused('infer', { ...least.infer, epochs: '3' }, 'epochs');
    await isRefused('evaluate', { ...least.evaluate, tta: '3' }, 'tta');
    await isRefused('infer', { ...least.infer, gt: file('gt.nii') }, 'gt');
  });

  test('A field counts as missing if it is empty, for any operation', async () => {
    await api.accepted('evaluate', { ...least.evaluate, tta: '', epochs: '', inputs_groups: '' });
  });
});

describe('options', () => {
  test('Options are acknowledged by name, sorted; without any, the list is empty', async () => {
    const given = options({ patch_size: [1, 2], config_overrides: ['a=1'], batch_size: 4 });
    const names = async (operation: string, form: FormValues) =>
      (await api.accepted(operation, form)).accepted_options;
    expect(await names('infer', { ...least.infer, ...given })).toEqual([
      'batch_size',
      'config_overrides',
      'patch_size',
    ]);
    expect(await names('pipeline', { ...least.pipeline, ...options({ batch_size: 1 }) })).toEqual([
      'batch_size',
    ]);
    expect(await names('fine_tune', { ...fineTune, ...options({ config_overrides: ['a='] }) })).toEqual([
      'config_overrides',
    ]);
    for (const text of ['', '{}', ' ']) {
      expect(await names('evaluate', { ...least.evaluate, options: text })).toEqual([]);
    }
    expect(await names('uncertainty', least.uncertainty)).toEqual([]);
  });

  test.for([
    ['patch_size', [[], 96, '96,96', [96, '96'], [1.5], [-1], null, {}]],
    ['max_voxels', [0, -1, 1.5, '2', true, null, [1], 2 ** 31]],
    ['batch_size', [-1, 1.5, '2', true, null, [1], 2 ** 31]],
    ['config_overrides', [[], 'a=1', ['a'], ['=1'], [1], ['-a=1'], ['--gpu=1'], ['a=\n'], null]],
  ] as [string, unknown[]][])('Options of a bad value are refused: %s', async ([name, values]) => {
    for (const value of values) {
      const refused = await api.refused('infer', { ...least.infer, ...options({ [name]: value }) });
      expect(refused, JSON.stringify(value)).toEqual([422, expect.stringContaining(name)]);
    }
  });

  test.for<[string, object, string]>([
    ['infer', { surprise: 1 }, 'surprise'],
    ['infer', { tta: 2 }, 'tta'],
    ['fine_tune', { patch_size: [1] }, 'patch_size'],
    ['fine_tune', { max_voxels: 1 }, 'max_voxels'],
    ['evaluate', { batch_size: 1 }, 'batch_size'],
    ['uncertainty', { config_overrides: ['a=1'] }, 'config_overrides'],
    ['infer', JSON.parse('{"__proto__": 1}'), '__proto__'],
  ])('Options that %s does not have are refused: %o', async ([operation, given, name]) => {
    const form = operation === 'fine_tune' ? fineTune : least[operation as keyof typeof least];
    expect(await api.refused(operation, { ...form, ...options(given) })).toEqual([
      422,
      expect.stringContaining(name),
    ]);
  });

  test.for(['{', '[]', '"a"', 'null', '3', 'patch_size=96'])(
    'Options that are no JSON object are refused: %s',
    (text) => isRefused('infer', { ...least.infer, options: text }, 'options'),
  );
});

test('A refused submission leaves no job and no directory', async () => {
  await api.refused('infer', { ...least.infer, tta: 'x' });
  const { jobs } = await api.json<{ jobs: { job_id: string }[] }>('/jobs');
  expect(server.jobDirectories().sort()).toEqual(jobs.map(({ job_id }) => job_id).sort());
});

test('A given value replaces the default, even if it is false or 0', () => {
  const content = { field: 'inputs', name: 'a.nii', path: '/nothing' };
  const fields = [
    { name: 'uncertainty', text: 'false' },
    { name: 'tta', text: '0' },
  ];
  const files = [content, { ...content, field: 'gt' }];
  const form = readForm(operationOf('pipeline'), { fields, files, bytes: 0 });
  expect(form.values).toMatchObject({ uncertainty: false, tta: 0 });
  const { values } = readForm(operationOf('pipeline'), { fields: [], files, bytes: 0 });
  expect(values).toMatchObject({ uncertainty: true });
});

test('A refused form names what is wrong with its options and its groups', () => {
  const files = ['a', 'b', 'c'].map((name) => ({ field: 'inputs', name, path: '/nothing' }));
  const formWith = (name: string, text: string, operation: 'infer' | 'uncertainty' = 'infer') =>
    readForm(operationOf(operation), { fields: [{ name, text }], files, bytes: 0 });
  const sizes = (text: string) =>
    [...formWith('inputs_groups', text).groups.values()][0]?.map((each) => each.length);
  expect(['', ' , ', ' 2,,1 '].map(sizes)).toEqual([[3], [3], [2, 1]]);
  for (const [name, text, problem] of [
    [
      'options',
      '{"a": 1}',
      "has the unknown key 'a'; infer takes: patch_size, max_voxels, batch_size, config_overrides",
    ],
    ['options', '{"toString": [1]}', "has the unknown key 'toString'"],
    ['options', '[]', 'must be a JSON object'],
    ['inputs_groups', '1,1', 'gives sizes that add up to 2, but 3 file(s) were sent'],
    ['inputs_groups', '3,0', 'must be at least 1, got 0'],
  ] as const)
    expect(() => formWith(name, text)).toThrow(`Field '${name}' ${problem}`);
  expect(() => formWith('options', '{"batch_size": 1}', 'uncertainty')).toThrow('uncertainty takes: none');
});
