import { describe, expect, test } from 'vitest';
import { FieldError } from '../../src/contract/errors.js';
import type { Field, FieldKind } from '../../src/contract/fields.js';
import { operationOf } from '../../src/contract/operations.js';
import { readGroups, readOptions, readText } from '../../src/contract/values.js';

const field = (kind: FieldKind, more: Partial<Field> = {}): Field => ({ name: 'f', kind, help: '', ...more });

describe('the text of a field', () => {
  test.for([
    ['integer', '42', 42],
    ['integer', ' -3 ', -3],
    ['integer', '+7', 7],
    ['integer', '007', 7],
    ['integer', '2147483647', 2_147_483_647],
    ['number', '0.001', 0.001],
    ['number', '1e-4', 1e-4],
    ['number', '.5', 0.5],
    ['number', '3.', 3],
    ['boolean', 'True', true],
    ['boolean', 'oFF', false],
    ['name', 'Run 2', 'Run 2'],
    ['path', 'configs/Fast.yml', 'configs/Fast.yml'],
    ['path', 'a..b.yml', 'a..b.yml'],
    ['paths', 'a.pt, b/c.pt ,', ['a.pt', 'b/c.pt']],
    ['gpus', '3,1, 3', [3, 1]],
    ['integers', '96, 96,64', [96, 96, 64]],
    ['overrides', 'a.b=c=d', ['a.b=c=d']],
  ] as [FieldKind, string, unknown][])('of kind %s is read: %s', ([kind, text, value]) => {
    expect(readText(field(kind), text)).toEqual(value);
  });

  test.for(['integer', 'number', 'boolean', 'name', 'path', 'paths', 'gpus', 'overrides'] as const)(
    'of kind %s counts as missing if it is empty',
    (kind) => {
      expect(readText(field(kind), '')).toBeUndefined();
      expect(readText(field(kind), '  ')).toBeUndefined();
    },
  );

  test.for([
    ['name', '-x'],
    ['path', '--output'],
    ['paths', 'a,-b'],
    ['overrides', '-a=1'],
    ['path', 'a\u0000b'],
    ['path', '\u2028/../x'],
    ['name', 'a\u007f'],
  ] as [FieldKind, string][])(
    'of kind %s cannot become a flag, a path that leads out, or a second line: %o',
    ([kind, text]) => {
      expect(() => readText(field(kind), text)).toThrow(FieldError);
    },
  );

  test('must be within the bounds of its field', () => {
    expect(readText(field('integer', { min: 1 }), '1')).toBe(1);
    expect(() => readText(field('integer', { min: 1 }), '0')).toThrow("Field 'f' must be at least 1, got 0");
    expect(() => readText(field('number', { above: 0 }), '0')).toThrow('greater than 0');
    expect(() => readText(field('integer'), '2147483648')).toThrow('out of range');
  });

  test('is refused for a field of files', () => {
    expect(() => readText(field('files'), 'x')).toThrow('sent as a file');
  });
});

describe('options', () => {
  test("are read by the operation's fields, not by inherited names of objects", () => {
    const json = '{"patch_size": [96, 96], "batch_size": 2, "config_overrides": ["a=1", "b="]}';
    expect(readOptions(operationOf('infer'), json)).toEqual({
      patch_size: [96, 96],
      batch_size: 2,
      config_overrides: ['a=1', 'b='],
    });
    expect(readOptions(operationOf('evaluate'), '')).toEqual({});
    for (const key of ['toString', '__proto__', 'constructor']) {
      expect(() => readOptions(operationOf('infer'), `{"${key}": [1]}`)).toThrow(key);
    }
  });

  test('are refused if they have half of a character, which no program can be given', () => {
    const half = String.raw`{"config_overrides": ["name=\ud800"]}`;
    expect(() => readOptions(operationOf('infer'), half)).toThrow(
      /config_overrides' holds half of a character/,
    );
    const whole = String.raw`{"config_overrides": ["name=\ud83e\uddea"]}`;
    expect(readOptions(operationOf('infer'), whole)).toEqual({ config_overrides: ['name=🧪'] });
  });

  test('have errors that name the option', () => {
    expect(() => readOptions(operationOf('infer'), '{"batch_size": -1}')).toThrow(
      "Field 'options.batch_size' must be at least 0, got -1",
    );
    expect(() => readOptions(operationOf('infer'), '{')).toThrow("Field 'options' must be a JSON object");
  });
});

describe('group sizes', () => {
  test('are one group if no sizes are given', () => {
    expect(readGroups('g', undefined, 3)).toEqual([3]);
    expect(readGroups('g', ' ', 3)).toEqual([3]);
  });

  test('add up to the number of files', () => {
    expect(readGroups('g', '1, 2', 3)).toEqual([1, 2]);
    expect(() => readGroups('g', '1,1', 3)).toThrow("Field 'g' gives sizes that add up to 2, but 3 file(s)");
    expect(() => readGroups('g', '3,0', 3)).toThrow('at least 1');
    expect(() => readGroups('g', 'a', 1)).toThrow('integer');
  });
});
