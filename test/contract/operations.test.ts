import { describe, expect, test } from 'vitest';
import { carriesFiles, type Field, groupsField, isOfService, isTyped } from '../../src/contract/fields.js';
import {
  commandOf,
  eachOperation,
  fieldWithRole,
  operationNames,
  operationOf,
} from '../../src/contract/operations.js';
import { list } from '../support/list.mjs';

/** Those of each operation. */
const ofEach = {
  gpu: undefined,
  cpu: 1,
  quiet: false,
  keep: undefined,
  time_limit: undefined,
  retry_alone: false,
  tag: undefined,
  deidentified: false,
};

/** The fields that clients rely on, written by hand: name, default; `!` if it is required. */
const specified: Record<string, Record<string, unknown>> = {
  infer: {
    inputs: '!',
    ensemble: 0,
    ensemble_models: undefined,
    tta: 0,
    mc: 0,
    uncertainty: false,
    prediction_file: 'Prediction.yml',
    ...ofEach,
  },
  evaluate: {
    inputs: '!',
    gt: '!',
    mask: undefined,
    evaluation_file: 'Evaluation.yml',
    ...ofEach,
  },
  uncertainty: {
    inputs: '!',
    uncertainty_file: 'Uncertainty.yml',
    ...ofEach,
  },
  fine_tune: {
    dataset: '!',
    name: 'Finetune',
    epochs: 10,
    it_validation: 1000,
    models: undefined,
    config_file: 'Config.yml',
    lr: undefined,
    ...ofEach,
  },
};
specified.pipeline = {
  ...specified.infer,
  ...specified.evaluate,
  ...specified.uncertainty,
  gt: '!',
  uncertainty: true,
};

/** The options that clients rely on, written by hand. */
const optional: Record<string, string[]> = {
  infer: ['batch_size', 'config_overrides', 'max_voxels', 'patch_size'],
  pipeline: ['batch_size', 'config_overrides', 'max_voxels', 'patch_size'],
  fine_tune: ['batch_size', 'config_overrides'],
  evaluate: [],
  uncertainty: [],
};

const all = operationNames.flatMap((name) => operationOf(name).fields.map((field) => ({ name, field })));

describe('the operations table', () => {
  test('The operations table has the five operations and their differences', () => {
    const rows = operationNames.map((name) => {
      const { segment, verb, timeLimit, paths, writesOutputs, needs } = operationOf(name);
      return [
        segment,
        verb,
        timeLimit,
        paths,
        writesOutputs,
        needs.map(({ capability }) => capability).join(),
      ];
    });
    expect(rows).toEqual([
      ['infer', 'infer', 'max_run_time', 'inputs', true, 'inference'],
      ['evaluate', 'eval', 'max_run_time', 'results', false, 'evaluation'],
      ['uncertainty', 'uncertainty', 'max_run_time', 'results', false, 'uncertainty'],
      ['pipeline', 'pipeline', 'max_run_time', 'inputs', false, 'inference,evaluation,uncertainty'],
      ['fine_tune', 'fine-tune', 'max_fine_tune_time', 'dataSet', false, 'fine-tuning'],
    ]);
    expect(rows.map(([segment]) => segment)).toEqual(operationNames);
  });

  test.for(operationNames)('The table of operations has the fields of %s that clients rely on', (name) => {
    const fields: readonly Field[] = operationOf(name).fields;
    const plain = fields.filter(({ option }) => !option);
    const table = Object.fromEntries(
      plain.map((field) => [field.name, field.required ? '!' : field.default]),
    );
    expect(table).toEqual(specified[name]);
    expect(Object.keys(table).sort()).toEqual(Object.keys(specified[name] ?? {}).sort());
    const options = fields.filter(({ option }) => option).map((field) => field.name);
    expect(options.sort()).toEqual(optional[name]);
  });

  test('The operations table gives a name the same meaning in every operation', () => {
    for (const { field } of all) {
      const kinds = all.filter((other) => other.field.name === field.name).map((other) => other.field.kind);
      // `uncertainty` is a field and an operation; as a field it is a boolean everywhere.
      expect(new Set(kinds).size, field.name).toBe(1);
    }
  });

  test.for(operationNames)('The operations table has one field of each role in %s', (name) => {
    const { fields } = operationOf(name);
    const roles = fields.flatMap(({ role }) => role ?? []);
    expect(roles.toSorted()).toEqual(list`deidentified gpus keep paths retryAlone tag timeLimit workers`);
    expect(fieldWithRole(operationOf(name), 'gpus')).toMatchObject({ kind: 'gpus', argument: '--gpu' });
    expect(fieldWithRole(operationOf(name), 'workers')).toMatchObject({ default: 1, argument: '--cpu' });
    expect(carriesFiles(fieldWithRole(operationOf(name), 'paths'))).toBe(true);
  });

  test('The operations table has group sizes for every list of files', () => {
    const lists = all.filter(({ field }) => carriesFiles(field) && field.kind === 'files');
    expect(new Set(lists.map(({ field }) => groupsField(field)))).toEqual(
      new Set(['inputs_groups', 'gt_groups', 'mask_groups']),
    );
  });
});

describe('command names', () => {
  test.each([
    ['fine_tune', 'fine-tune'],
    ['infer', 'infer'],
    ['other', 'other'],
    ['toString', 'toString'],
  ])('The operation %s has the command %s', (name, command) => {
    expect(commandOf(name)).toBe(command);
  });

  test('A role that no field has causes an error that names the operation and the role', () => {
    const bare = { ...operationOf('infer'), fields: [] };
    expect(() => fieldWithRole(bare, 'tag')).toThrow('The operation infer has no field with the role tag');
  });

  test('Each operation gets its own value', () => {
    expect(eachOperation((name) => name.length)).toEqual({
      ...{ infer: 5, evaluate: 8, uncertainty: 11, pipeline: 8, fine_tune: 9 },
    });
  });

  test('Only the service reads some fields, one of which a person does not set', () => {
    const { fields } = operationOf('infer');
    const names = (isMeant: (field: Field) => boolean) => fields.filter(isMeant).map(({ name }) => name);
    expect(names(isOfService)).toEqual(['keep', 'time_limit', 'retry_alone', 'tag', 'deidentified']);
    expect(names((field) => !isTyped(field))).toEqual(['deidentified']);
  });
});
