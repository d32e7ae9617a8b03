import { describe, expect, test } from 'vitest';
import { runFlags, submitFlags } from '../../../src/cli/submit/submit-flags.js';
import { type Field, type FieldKind, flagName, isTyped } from '../../../src/contract/fields.js';
import { operationNames, operationOf } from '../../../src/contract/operations.js';
import { request } from '../support/parse.js';

/** A valid value for each kind of field, and how the form or the options spell it. */
const samples: Readonly<Record<FieldKind, { argv: string[]; field: string; option: unknown }>> = {
  integer: { argv: ['7'], field: '7', option: 7 },
  number: { argv: ['0.5'], field: '0.5', option: 0.5 },
  boolean: { argv: [], field: 'true', option: true },
  name: { argv: ['Run'], field: 'Run', option: 'Run' },
  path: { argv: ['sub/Other.yml'], field: 'sub/Other.yml', option: 'sub/Other.yml' },
  paths: { argv: ['a.pt,b.pt'], field: 'a.pt,b.pt', option: ['a.pt', 'b.pt'] },
  gpus: { argv: ['0,1'], field: '0,1', option: [0, 1] },
  integers: { argv: ['96,96'], field: '96,96', option: [96, 96] },
  text: { argv: ['study 7'], field: 'study 7', option: 'study 7' },
  duration: { argv: ['7d'], field: '604800', option: 604_800 },
  overrides: { argv: ['a.b=1'], field: 'a.b=1', option: ['a.b=1'] },
  files: { argv: ['x.nii'], field: '', option: null },
  archive: { argv: ['set'], field: '', option: null },
};

/** The flags that an operation requires besides the one under test. */
function required(fields: readonly Field[], besides: Field): string[] {
  const missing = fields.filter((field) => field.required && field !== besides);
  return missing.flatMap((field) => [`--${flagName(field)}`, 'other.nii']);
}

describe.each(operationNames)('%s', (name) => {
  const fields = operationOf(name).fields.filter(isTyped);
  /** The flags of all operations, of results that are converted, and of many cases. */
  const shared = [
    ...['app', 'as', 'strict', ...Object.keys(runFlags)],
    ...Object.entries(submitFlags(name)).flatMap(([flag, { helpGroup }]) =>
      helpGroup === 'EACH' ? flag : [],
    ),
  ];

  test(`The command ${name} has exactly one flag for each table field that a person sets`, () => {
    const own = Object.keys(submitFlags(name)).filter((flag) => !shared.includes(flag));
    expect(own.sort()).toEqual(fields.map(flagName).sort());
    expect(operationOf(name).fields.filter((field) => !fields.includes(field))).toEqual([
      expect.objectContaining({ name: 'deidentified' }),
    ]);
  });

  test(`The command ${name} has no field whose flag or letter is also another flag`, () => {
    const all = submitFlags(name) as Record<string, { char?: string }>;
    expect(fields.map(flagName).filter((flag) => shared.includes(flag))).toEqual([]);
    const letters = Object.values(all).flatMap((flag) => flag.char ?? []);
    expect(new Set(letters).size).toBe(letters.length);
  });

  test.each(fields.map((field) => [flagName(field), field] as const))(
    '--%s reaches the request',
    async (flag, field) => {
      const { argv, field: text, option } = samples[field.kind];
      const sent = await request(name, `--${flag}`, ...argv, ...required(fields, field));
      if (field.kind === 'files') {
        expect(sent.files.find((each) => each.field === field)?.groups).toEqual([argv]);
      } else if (field.kind === 'archive') {
        expect(sent.archive).toEqual({ field, path: argv[0] });
      } else if (field.option) {
        expect(sent.options).toEqual({ [field.name]: option });
        expect(sent.fields).toEqual({});
      } else {
        expect(sent.fields).toEqual({ [field.name]: text });
        expect(sent.options).toEqual({});
      }
    },
  );

  test.each(fields.map((field) => [field.name, field] as const))(
    '--%s, as the form spells it, is the same',
    async (alias, field) => {
      const { argv } = samples[field.kind];
      const rest = required(fields, field);
      const [dashed, underscored] = await Promise.all([
        request(name, `--${flagName(field)}`, ...argv, ...rest),
        request(name, `--${alias}`, ...argv, ...rest),
      ]);
      expect(underscored).toEqual(dashed);
    },
  );

  test.each(
    fields.filter((field) => field.kind === 'boolean').map((field) => [flagName(field), field] as const),
  )('--no-%s sends false', async (flag, field) => {
    const sent = await request(name, `--no-${flag}`, ...required(fields, field));
    expect(sent.fields).toEqual({ [field.name]: 'false' });
  });
});
