import { describe, expect, test } from 'vitest';
import { type AppFacts, fileRefusals, refusals } from '../../src/contract/app-checks.js';
import { parameterFaults, readParameters } from '../../src/contract/app-parameters.js';
import type { FieldValues } from '../../src/contract/fields.js';
import { type OperationName, operationOf } from '../../src/contract/operations.js';

const volume = (display_name: string, required = true, fallback: string | null = null) => ({
  display_name,
  required,
  default: fallback,
});

/** An app that says nothing about anything. */
const silent: AppFacts = {
  inputs: {},
  checkpoints_name: null,
  checkpoints_name_available: null,
  maximum_tta: null,
  mc_dropout: null,
  has_capabilities: [],
};

const parameters = {
  scale: { default: 1, min: 0.5, max: 2 },
  steps: { type: 'integer', min: 1 },
  mode: { default: 'fast', choices: ['fast', 'exact'] },
  level: { choices: [1, 2, 3] },
  smooth: { default: false },
  sure: { choices: [true] },
  spacing: { default: [1, 1, 1], min: 0.1 },
  seed: { default: null, max: 10 },
  label: 'brain',
  post: { threshold: 0.5 },
};

const all = [true, true, true];

/** What the app says against it, as one text. */
const refused = (
  app: Partial<AppFacts>,
  name: OperationName,
  values: FieldValues = {},
  groups: number | null = 1,
) =>
  refusals({ ...silent, ...app }, operationOf(name), values, groups === null ? null : { inputs: groups })
    .map(({ field, value, problem }) => [field?.name ?? '-', value ?? '-', problem].join(' | '))
    .join('\n');

const set = (...overrides: string[]) => ({ config_overrides: overrides });

describe('a parameter', () => {
  test.each([
    ['scale=99', "takes 'scale' from 0.5 to 2"],
    ['scale=', "takes a number for 'scale'"],
    ['scale=fast', "takes a number for 'scale'"],
    ['scale=0x1', "takes a number for 'scale'"],
    ['steps=0', "takes 'steps' of at least 1"],
    ['steps=1.5', "takes an integer for 'steps'"],
    ['mode=quick', "takes 'fast' or 'exact' for 'mode'"],
    ['mode=', "takes 'fast' or 'exact' for 'mode'"],
    ['level=4', "takes '1', '2' or '3' for 'level'"],
    ['smooth=yes', "takes true or false for 'smooth'"],
    ['spacing=1,0,1', "takes 'spacing' of at least 0.1"],
    ['seed=11', "takes 'seed' of at most 10"],
    ['scael=2', "has no parameter 'scael' (did you mean 'scale'?)"],
    ['Scale=1', "has no parameter 'Scale' (did you mean 'scale'?)"],
    [' scale=1', "has no parameter ' scale' (did you mean 'scale'?)"],
    ['scale=null', "takes a number for 'scale'"],
    ['spacing=x[1,1,2]', "takes a number for 'spacing'"],
    ['smooth=truely', "takes true or false for 'smooth'"],
    ['sure=no', "takes 'true' for 'sure'"],
    [
      'scale.x=1',
      "has no parameter 'scale.x'; it has: scale, steps, mode, level, smooth, sure, spacing, seed, label, post",
    ],
    ['constructor=1', "has no parameter 'constructor'; it has: .*"],
    ['postx.threshold=1', "has no parameter 'postx.threshold'; it has: .*"],
  ])('A parameter is refused: %s', (override, problem) => {
    const found = refused({ parameters }, 'infer', set(override));
    expect(found.split(' | ')).toEqual([
      'config_overrides',
      override,
      problem.endsWith('.*') ? expect.stringContaining(problem.slice(0, -2)) : problem,
    ]);
  });

  test.each([
    ...['scale=2', 'scale=5e-1', 'steps=+3', 'mode=exact', 'level=2.0', 'smooth=True', 'sure=TRUE'],
    ...[
      'spacing=[1, 2, 0.5]',
      'spacing=1,1,2',
      'seed=null',
      'seed=-3',
      'label=',
      'label=a=b',
      'post.threshold=0.7',
      'post={}',
    ],
  ])('A parameter is accepted: %s', (override) => {
    expect(refused({ parameters }, 'infer', set(override))).toBe('');
  });

  test('Each wrong parameter is reported, for each operation that takes parameters', () => {
    const wrong = set('scale=99', 'scale=1', 'mode=quick', 'scael=2');
    for (const name of ['infer', 'pipeline', 'fine_tune'] as const) {
      expect(refused({ parameters }, name, wrong).split('\n')).toHaveLength(3);
    }
  });

  test('A parameter is a number where its default is one', () => {
    expect(refused({ parameters: { count: 4 } }, 'infer', set('count=many'))).toContain(
      "takes a number for 'count'",
    );
  });

  test('A KonfAI parameter has the name that sets it, and the constraints of its own key or of all keys', () => {
    const values = { depth: 3, net: { blocks: 2, empty: {} } };
    const constraints = { depth: { min: 1 }, net: { blocks: { min: 2 }, '*': { max: 9 } } };
    const read = (path?: string) => {
      const { all, isComplete } = readParameters({ values, constraints, path });
      expect(isComplete).toBe(false);
      return all.map(({ name, value, facts }) => [name, value, facts]);
    };
    expect(read('Predictor.Model')).toEqual([
      ['depth', 3, { min: 1 }],
      ['Predictor.Model.net.blocks', 2, { min: 2 }],
      ['Predictor.Model.net.empty', {}, { max: 9 }],
    ]);
    expect(read()[1]).toEqual(['net.blocks', 2, { min: 2 }]);
  });

  test.each([
    ['nothing', undefined],
    ['a list', ['depth']],
    ['no name', {}],
    ['what is not understood', 'all'],
    [
      "KonfAI's values",
      { values: { depth: 3 }, constraints: { depth: { min: 1 } }, path: 'Predictor.Model.Net' },
    ],
    ['bounds that are none', { depth: { min: '3', max: null, choices: 'a' }, any: 1 }],
  ])('A parameter is unrestricted if an app declares %s', (_, declared) => {
    expect(refused({ parameters: declared }, 'infer', set('depth=-7', ...(declared ? [] : ['any=1'])))).toBe(
      '',
    );
  });
});

describe('parameter declarations', () => {
  test.each([
    [{ min: '0.5' }, 'min', "must be a number, got '0.5'"],
    [{ max: [2] }, 'max', "must be a number, got '[2]'"],
    [{ min: 2, max: 1 }, 'min', 'is above max, 1'],
    [{ choices: 'fast' }, 'choices', "must be a list, got 'fast'"],
    [{ choices: [] }, 'choices', 'must not be empty'],
    [{ type: 'float' }, 'type', "must be one of: number, integer, boolean, text, got 'float'"],
    [{ default: 3, max: 2 }, 'default', "is '3': the app itself takes 'x' of at most 2"],
    [{ default: 'c', choices: ['a', 'b'] }, 'default', "is 'c': the app itself takes 'a' or 'b' for 'x'"],
    [{ default: 1, minimum: 0 }, 'minimum', "is not known; did you mean 'min'?"],
    [{ default: 1, chocies: [1] }, 'chocies', "is not known; did you mean 'choices'?"],
    [{ default: 1, description: 3 }, 'description', "must be a text, got '3'"],
  ])('A wrong declaration of a parameter is reported: %j', (facts, key, problem) => {
    expect(parameterFaults({ x: facts })).toContainEqual({ path: ['parameters', 'x', key], problem });
  });

  test('A declaration of a parameter is valid within its bounds, with equal bounds, and without a default', () => {
    for (const facts of [{ min: 1, max: 1, default: 1 }, { choices: ['a'], default: null }, { type: null }])
      expect(parameterFaults({ x: facts })).toEqual([]);
  });

  test("A declaration of a parameter is valid as documented, and in KonfAI's form", () => {
    expect(parameterFaults(parameters)).toEqual([]);
    expect(parameterFaults({ values: { a: 1 }, constraints: {}, path: 'x' })).toEqual([]);
    expect(parameterFaults(undefined)).toEqual([]);
  });

  test('A declaration of parameters must be an object or a list with names', () => {
    expect(parameterFaults('all')).toEqual([
      { path: ['parameters'], problem: "must be an object of parameters by name, got 'all'" },
    ]);
    expect(parameterFaults({ 'a=b': 1, '-x': 1, ' y': 1, 'z ': 1, good: 1 })).toEqual(
      ['a=b', '-x', ' y', 'z '].map((name) => ({
        path: ['parameters', name],
        problem: `'${name}' cannot be set: a name has no '=', and does not begin with '-' or a space`,
      })),
    );
    expect(parameterFaults(null)).toEqual([]);
    // Those of KonfAI have no place of their own in what an app declares.
    const lr = { 'Trainer.lr=': 1 };
    expect(parameterFaults({ values: lr, constraints: { 'Trainer.lr=': { min: 'low' } } })).toEqual([]);
  });
});

describe('an operation', () => {
  const has = (inference: boolean, evaluation: boolean, uncertainty: boolean, finetunable = false) => ({
    has_capabilities: [inference, evaluation, uncertainty],
    finetunable,
  });

  test.each([
    ['evaluate', has(true, false, false), {}, 'has no evaluation; it has: inference'],
    ['uncertainty', has(true, true, false), {}, '- | - | has no uncertainty; it has: inference, evaluation'],
    ['fine_tune', has(true, false, false), {}, 'cannot be fine-tuned; it has: inference'],
    ['fine_tune', has(true, false, false), { config_file: 'Config.yml' }, 'cannot be fine-tuned'],
    ['infer', has(false, true, false), {}, 'has no inference; it has: evaluation'],
    ['pipeline', has(true, false, true), {}, '- | - | has no evaluation; it has: inference, uncertainty'],
    ['pipeline', has(true, true, false), { uncertainty: true }, 'has no uncertainty'],
    [
      'pipeline',
      has(true, true, false),
      {},
      'uncertainty | true | has no uncertainty; it has: inference, evaluation',
    ],
  ] as const)('The operation %s is refused by the app %j', (name, app, values, problem) => {
    expect(refused(app, name, values)).toContain(problem);
  });

  test.each([
    ['infer', has(false, false, false), {}],
    ['evaluate', has(false, false, false), {}],
    ['fine_tune', has(false, false, false), {}],
    ['infer', has(false, false, true, true), {}],
    ['uncertainty', has(false, false, true), {}],
    ['infer', { has_capabilities: all }, {}],
    ['evaluate', { has_capabilities: all }, {}],
    ['evaluate', {}, {}],
    ['fine_tune', {}, {}],
    ['fine_tune', { finetunable: true }, {}],
    ['pipeline', has(true, true, false), { uncertainty: false }],
    // A file that is named may be there although none of the usual name is.
    ['evaluate', has(true, false, false), { evaluation_file: 'Mine.yml' }],
    ['fine_tune', has(true, false, false), { config_file: 'Mine.yml' }],
    // The stack of the passes is written by the inference.
    ['infer', has(true, false, false), { uncertainty: true }],
  ] as const)('The operation %s is not refused by the app %j', (name, app, values) => {
    expect(refused(app, name, values)).toBe('');
  });
});

test('Nothing is refused that a later field may still change', () => {
  const app = { has_capabilities: [true, false, false], finetunable: false };
  for (const name of ['evaluate', 'uncertainty', 'pipeline', 'fine_tune'] as const) {
    expect(refused(app, name, {}, null)).toBe('');
    expect(refused(app, name, {})).not.toBe('');
  }
  expect(refused(app, 'evaluate', { evaluation_file: 'Evaluation.yml' }, null)).toContain(
    'has no evaluation',
  );
});

describe('groups of inputs', () => {
  const inputs = {
    A: volume('T1'),
    B: volume('FLAIR'),
    C: volume('Mask', false),
    D: volume('Atlas', true, 'atlas.nii'),
  };

  test.each([
    [1, 'infer', "needs 2 groups of inputs, in this order: 'T1', 'FLAIR'; got 1"],
    [5, 'infer', "takes at most 4 groups of inputs, in this order: 'T1', 'FLAIR', 'Mask', 'Atlas'; got 5"],
    [5, 'pipeline', 'takes at most 4 groups'],
  ] as const)('%i groups of inputs are refused by %s', (count, name, problem) => {
    expect(refused({ inputs }, name, { uncertainty: false }, count)).toContain(problem);
  });

  test('Too many groups of inputs are refused without an order if the app takes only one', () => {
    const one = { A: volume('T1') };
    expect(refused({ inputs: one }, 'infer', {}, 2)).toBe(
      "inputs | - | takes 1 group of inputs: 'T1'; got 2",
    );
  });

  test.each([
    [2, 'infer', inputs],
    [4, 'infer', inputs],
    [9, 'infer', {}],
    [9, 'evaluate', inputs],
    [null, 'infer', inputs],
  ] as const)('%s groups of inputs are accepted by %s', (count, name, declared) => {
    expect(refused({ inputs: declared }, name, {}, count)).toBe('');
  });
});

describe('checkpoints', () => {
  const some = { checkpoints_name: ['a.pt', 'b.pt'], checkpoints_name_available: ['a.pt', 'b.pt', 'c.pt'] };
  const none = { checkpoints_name: [], checkpoints_name_available: [] };
  test.each([
    [some, { ensemble: 3 }, "has 2 checkpoints: 'a.pt', 'b.pt'"],
    [some, { ensemble: 2 }, ''],
    [none, { ensemble: 2 }, 'has no checkpoints to choose from'],
    [none, { ensemble: 1 }, ''],
    [none, { ensemble_models: ['a'] }, 'has no checkpoints to choose from'],
    [some, { ensemble_models: ['a', 'models/c.pt'] }, ''],
    [
      some,
      { ensemble_models: ['a', 'd', 'b.p'] },
      "has no checkpoint 'd', 'b.p'; it has: 'a.pt', 'b.pt', 'c.pt'",
    ],
    [{ checkpoints_name: ['a.pt'], checkpoints_name_available: null }, { ensemble_models: ['d'] }, ''],
    [{ checkpoints_name: null, checkpoints_name_available: ['a.pt'] }, { ensemble_models: ['d'] }, ''],
    [{ ...some, checkpoints_name: ['models/MR/CV_0.pt'] }, { ensemble_models: ['CV_0'] }, ''],
    // The names are what counts.
    [some, { ensemble: 3, ensemble_models: ['a'] }, ''],
    [{}, { ensemble: 9 }, ''],
    [{}, { ensemble_models: ['a'] }, ''],
  ])('An app with the checkpoints %j answers %j', (app, values, problem) => {
    for (const name of ['infer', 'pipeline'] as const)
      expect(refused(app, name, { ...values, uncertainty: false })).toContain(problem);
    if (problem === '') expect(refused(app, 'infer', values)).toBe('');
  });
});

describe('passes', () => {
  test.each([
    ['maximum_tta', 'tta', 4, 4, ''],
    ['maximum_tta', 'tta', 4, 5, 'takes at most 4'],
    ['maximum_tta', 'tta', 0, 1, 'takes none'],
    ['maximum_tta', 'tta', null, 99, ''],
    ['mc_dropout', 'mc', 2, 3, 'takes at most 2'],
  ] as const)('%s of an app limits --%s to %j, not to %i', (bound, name, most, asked, problem) => {
    const found = refused({ [bound]: most }, 'infer', { [name]: asked });
    expect(found).toBe(problem && `${name} | ${asked} | ${problem}`);
  });
});

describe('a patch size', () => {
  test.each([
    [[96, 96, 96], [96, 96], 'takes a patch size of 3 numbers, such as 96,96,96'],
    [[1, 256, 256], [64], 'takes a patch size of 3 numbers, such as 1,256,256'],
    [[96, 96], [96, 96, 96], 'takes a patch size of 2 numbers, such as 96,96'],
    [[96, 96, 96], [0, 64, 64], ''],
    [null, [64], ''],
  ])('A patch size must fit an app with %j: %j', (own, asked, problem) => {
    const found = refused({ patch_size: own }, 'infer', { patch_size: asked });
    expect(found.split(' | ').at(-1)).toBe(problem);
    expect(refused({ patch_size: own }, 'infer')).toBe('');
  });
});

describe('kinds of files', () => {
  const rtstruct = Buffer.concat([
    Buffer.alloc(128),
    Buffer.from('DICM\u0002\0\u0002\0UI\u001e\x001.2.840.10008.5.1.4.1.1.481.3\0', 'latin1'),
  ]);
  const file = (name: string, start: string | Buffer = '') => ({
    name,
    start: () => Buffer.from(start as string, 'latin1'),
  });
  const says = (type: string, content: ReturnType<typeof file>) =>
    fileRefusals({ inputs: { A: { ...volume('Head'), volume_type: type } } }, operationOf('infer'), [
      [content],
    ]).map(({ field, problem }) => `${field?.name}: ${problem}`);

  test.each([
    ['a.PNG', '', 'a picture'],
    ['photo', '\u0089PNG\r\n', 'a picture'],
    ['scan.nii', '\u00ff\u00d8\u00ff', 'a picture'],
    ['t.csv', '', 'a table'],
    ['report.pdf', '', 'a document'],
    ['report', '%PDF-1.4', 'a document'],
    ['participants.json', '', 'a document'],
    ['all.zip', '', 'an archive'],
    ['all', 'PK\u0003\u0004', 'an archive'],
  ])('The file %s that begins with %j is not accepted as a volume', (name, start, what) => {
    for (const type of ['VOLUME', 'SEGMENTATION'])
      expect(says(type, file(name, start))).toEqual([
        `inputs: takes volumes as 'Head', and '${name}' is ${what}`,
      ]);
    expect(says('IMAGE', file(name, start))).toEqual([]);
    expect(says('', file(name, start))).toEqual([]);
  });

  test('A DICOM object without voxels is not accepted as a volume either', () => {
    expect(says('VOLUME', file('RS.dcm', rtstruct))).toEqual([
      "inputs: takes volumes as 'Head', and 'RS.dcm' is a structure set of DICOM (RTSTRUCT)",
    ]);
    const dose = Buffer.from(rtstruct.toString('latin1').replace('481.3', '481.2'), 'latin1');
    expect(says('VOLUME', file('RD.dcm', dose))).toEqual([]);
  });

  test.each([
    ['a.nii.gz', '\u001f\u008b'],
    ['a.npz', 'PK\u0003\u0004'],
    ['series.konfaidir.zip', 'PK\u0003\u0004'],
    ['slide.tif', 'II*\0'],
    ['x.raw', 'text'],
    ['IM0001', ''],
  ])('The file %s is accepted as a volume', (name, start) => {
    expect(says('VOLUME', file(name, start))).toEqual([]);
  });
});
