import { expect, test } from 'vitest';
import {
  type AppFacts,
  capabilityNames,
  fileRefusals,
  notAvailable,
  refusals,
} from '../../src/contract/app-checks.js';
import { operationOf } from '../../src/contract/operations.js';

const app: AppFacts = {
  inputs: {},
  checkpoints_name: null,
  checkpoints_name_available: null,
  maximum_tta: null,
  mc_dropout: null,
  has_capabilities: [],
};

test('An app that cannot run is named with the reason, on one line', () => {
  expect(notAvailable('a\nb', 'app.json:\n  line 1 \n\n is wrong')).toBe(
    String.raw`The app 'a\x0ab' is not available: app.json: line 1 is wrong`,
  );
  expect(notAvailable('a', 'x'.repeat(2001))).toBe(`The app 'a' is not available: ${'x'.repeat(2000)}...`);
});

test.each([
  [{ has_capabilities: [true, false, true], finetunable: true }, ['inference', 'uncertainty', 'fine-tuning']],
  [{ has_capabilities: [false, true, false], finetunable: false }, ['evaluation']],
  [{ has_capabilities: [true] }, ['inference']],
  [{}, []],
])('The capabilities %j are named in words', (facts, names) => {
  expect(capabilityNames({ ...app, ...facts })).toEqual(names);
});

test('Files are refused that the input of their group does not accept', () => {
  const file = (name: string) => ({ name, start: () => Buffer.alloc(0) });
  const inputs = {
    CT: { display_name: '', volume_type: 'VOLUME' },
    report: { display_name: 'Report', volume_type: 'TEXT' },
    mask: { display_name: 'Mask', volume_type: 'SEGMENTATION' },
  };
  const groups = [
    [file('a.nii'), file('b.png'), file('c.csv')],
    [file('d.pdf')],
    [file('e.zip')],
    [file('f.png')],
  ];
  const infer = operationOf('infer');
  const field = infer.fields.find(({ name }) => name === 'inputs');
  expect(fileRefusals({ inputs }, infer, groups)).toEqual([
    { field, value: null, problem: "takes volumes as 'CT', and 'b.png' is a picture" },
    { field, value: null, problem: "takes volumes as 'CT', and 'c.csv' is a table" },
    { field, value: null, problem: "takes volumes as 'Mask', and 'e.zip' is an archive" },
  ]);
  expect(fileRefusals({ inputs }, operationOf('evaluate'), groups)).toEqual([]);
});

test('Inputs are called by their keys if they have no name, and are required unless they say otherwise', () => {
  const input = (display_name: string, more = {}) => ({ display_name, required: true, ...more });
  const inputs = {
    CT: input(''),
    T1: input('T1w'),
    atlas: input('Atlas', { default: 'a.nii' }),
    free: input(''),
  };
  const of = (groups: number, given: AppFacts['inputs'] = inputs) =>
    refusals({ ...app, inputs: given }, operationOf('infer'), {}, { inputs: groups }).map(
      ({ problem }) => problem,
    );
  expect([0, 3].map((groups) => of(groups))).toEqual([
    ["needs 3 groups of inputs, in this order: 'CT', 'T1w', 'free'; got 0"],
    [],
  ]);
  const optional = { CT: input('', { required: false }), T1: input('T1', { required: null }) };
  expect([0, 2, 3].map((groups) => of(groups, optional))).toEqual([
    [],
    [],
    ["takes at most 2 groups of inputs, in this order: 'CT', 'T1'; got 3"],
  ]);
  expect(refusals({ ...app, inputs }, operationOf('infer'), {}, {}).map(({ problem }) => problem)).toEqual(
    of(0),
  );
});

const problemsOf = (parameters: unknown, ...overrides: readonly string[]) =>
  refusals({ ...app, parameters }, operationOf('infer'), { config_overrides: overrides }, null);

test.each([
  [{ type: 'integer', min: 1, max: 3 }, '4', "takes 'a' from 1 to 3"],
  [{ type: 'integer', min: 1, max: 3 }, '3', null],
  [{ max: 3 }, '3', null],
  [{ type: 'text', min: 3 }, 'x', null],
  [{ type: 'number', default: true }, 'true', "takes a number for 'a'"],
  [{ default: [true] }, 'true,0', "takes true or false for 'a'"],
  [{ default: [1, 2] }, '[1,\n2]', null],
  [{ default: null, type: 'number' }, 'None', null],
])('For the parameter %j, the value %j is accepted or refused with a reason', (facts, text, problem) => {
  expect(problemsOf({ a: facts }, `a=${text}`).map((each) => each.problem)).toEqual(problem ? [problem] : []);
});
