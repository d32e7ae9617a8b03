import { describe, expect, test } from 'vitest';
import { FieldError } from '../../src/contract/errors.js';
import type { Field, FieldKind } from '../../src/contract/fields.js';
import { numberOf, readOption, readText } from '../../src/contract/values.js';

const field = (kind: FieldKind, more: Partial<Field> = {}): Field => ({ name: 'f', kind, help: '', ...more });

describe('the text of a field', () => {
  test.for<[FieldKind, string, unknown]>([
    ['integer', '42', 42],
    ['integer', ' -3 ', -3],
    ['integer', '+7', 7],
    ['integer', '007', 7],
    ['integer', '2147483647', 2_147_483_647],
    ['integer', '-2147483647', -2_147_483_647],
    ['number', '0.001', 0.001],
    ['number', '1e-4', 1e-4],
    ['number', '.5', 0.5],
    ['number', '3.', 3],
    ['number', '-12.25', -12.25],
    ['number', '.25E+10', 0.25e10],
    ['number', '10.75', 10.75],
    ['boolean', 'True', true],
    ['boolean', 'oFF', false],
    ['boolean', '1', true],
    ['boolean', 'yes', true],
    ['boolean', 'on', true],
    ['boolean', 'false', false],
    ['boolean', '0', false],
    ['boolean', 'no', false],
    ['number', '1e5', 1e5],
    ['name', 'Run 2', 'Run 2'],
    ['path', 'configs/Fast.yml', 'configs/Fast.yml'],
    ['path', 'a..b.yml', 'a..b.yml'],
    ['paths', 'a.pt, b/c.pt ,', ['a.pt', 'b/c.pt']],
    ['gpus', '3,1, 3', [3, 1]],
    ['integers', '96, 96,64', [96, 96, 64]],
    ['overrides', 'a.b=c=d', ['a.b=c=d']],
    ['overrides', 'a=', ['a=']],
    ['text', 'x'.repeat(200), 'x'.repeat(200)],
    ['name', 'x'.repeat(200), 'x'.repeat(200)],
    ['path', 'x'.repeat(4096), 'x'.repeat(4096)],
    ['path', './a', './a'],
    ['path', 'ab:c', 'ab:c'],
    ['path', '..b/..c.yml', '..b/..c.yml'],
    ['duration', '12h', 43_200],
    ['duration', 'MAX', 'max'],
  ])('The text of a field of kind %s is read: %s', ([kind, text, value]) => {
    expect(readText(field(kind), text)).toEqual(value);
  });

  test.for(['integer', 'number', 'boolean', 'name', 'path', 'paths', 'gpus', 'overrides'] as const)(
    'The text of a field of kind %s counts as missing if it is empty',
    (kind) => {
      expect(readText(field(kind), '')).toBeUndefined();
      expect(readText(field(kind), '  ')).toBeUndefined();
    },
  );

  test.for<[FieldKind, string]>([
    ['name', '-x'],
    ['paths', 'a,-b'],
    ['overrides', '-a=1'],
    ['path', '\u2028/../x'],
    ['name', 'a\u007f'],
    ['name', 'x'.repeat(201)],
    ['text', '-x'],
    ['text', 'a\nb'],
    ['path', '\\\\host\\share'],
    ['path', 'C:x'],
    ['path', 'c:x'],
    ['path', 'a\\..\\b'],
    ['paths', 'a,/b'],
    ['paths', ','],
    ['integers', '1,x'],
    ['integer', '1a'],
    ['integer', 'a1'],
    ['number', '1e'],
    ['number', '0x1'],
    ['number', '.'],
    ['boolean', 'constructor'],
    ['overrides', '=a'],
    ['overrides', ' =a'],
    ['overrides', '=a=b'],
    ['duration', 'soon'],
  ])(
    'The text of a field of kind %s cannot become a flag, a path that leads outside, a second line, or a value of another kind: %o',
    ([kind, text]) => {
      expect(() => readText(field(kind), text)).toThrow(FieldError);
    },
  );

  test('The text of a field must be within the bounds of its field', () => {
    expect(readText(field('integer', { min: 1 }), ' 1 ')).toBe(1);
    expect(() => readText(field('integer', { min: 1 }), '0')).toThrow("Field 'f' must be at least 1, got 0");
    expect(() => readText(field('number', { above: 0 }), '0')).toThrow('greater than 0');
    expect(readText(field('number', { above: 0 }), '0.1')).toBe(0.1);
    expect(readText(field('number', { min: 0.5 }), '0.5')).toBe(0.5);
    expect(() => readText(field('integers', { min: 1 }), '2,0')).toThrow('at least 1, got 0');
    expect(() => readText(field('integer'), '2147483648')).toThrow('out of range');
  });

  test('Text is refused for a field of files', () => {
    for (const kind of ['files', 'archive'] as const)
      expect(() => readText(field(kind), 'x')).toThrow("Field 'f' must be sent as a file");
  });

  test.for<[FieldKind, string, string]>([
    ['integer', '1.5', "must be an integer, got '1.5'"],
    ['integer', '2147483648', "is out of range: '2147483648'"],
    ['integer', '-2147483648', "is out of range: '-2147483648'"],
    ['number', 'x', "must be a number, got 'x'"],
    ['boolean', 'Maybe', "must be true or false, got 'Maybe'"],
    ['name', 'a/b', "must be a plain name of at most 200 characters, got 'a/b'"],
    ['path', '../a', "must be a relative name inside the app, without '..', got '../a'"],
    ['path', './/.', "must name a file of the app, got './/.'"],
    ['path', 'x'.repeat(4097), 'is longer than 4096 characters'],
    ['path', '-x', "must not begin with '-', got '-x'"],
    ['path', 'a\u0007b', 'holds a control character; remove it'],
    ['text', 'x'.repeat(201), 'is longer than 200 characters; shorten it'],
    ['paths', ' , ', 'must not be an empty list'],
    ['overrides', 'a', "must be NAME=VALUE, got 'a'"],
    ['duration', 'Soon', "must be a time such as 90s, 15m, 12h or 7d, or 'max', got 'Soon'"],
    ['gpus', '0,-1', 'must be at least 0, got -1'],
  ])('An error for the text of a field of kind %s says what is wrong: %o', ([kind, text, problem]) => {
    expect(() => readText(field(kind), text)).toThrow(new FieldError('f', problem));
  });
});

test('A number with other text around it is refused', () => {
  const texts = ['+1', '-.5', '1.', '1e3', '1E-3', ' 1', '1 ', '1e400', 'Infinity', '1,5', '', '0b1'];
  expect(texts.map(numberOf)).toEqual([
    ...[1, -0.5, 1, 1000, 0.001],
    ...[undefined, undefined, undefined, undefined, undefined, undefined, undefined],
  ]);
});

test('An option is read from JSON by its kind, and an error names it', () => {
  expect(readOption(field('integer'), 2)).toBe(2);
  expect(readOption(field('integers'), [96, 96])).toEqual([96, 96]);
  expect(readOption(field('overrides'), ['a=1', 'b=🧪'])).toEqual(['a=1', 'b=🧪']);
  for (const [kind, value, problem] of [
    ['integer', '2', 'must be an integer'],
    ['integer', 1.5, "must be an integer, got '1.5'"],
    ['integers', 96, 'must be a non-empty list'],
    ['integers', [], 'must not be an empty list'],
    ['integers', ['96'], 'must be a list of integers'],
    ['overrides', [3], "must be NAME=VALUE, got '3'"],
    ['overrides', ['a=\ud800'], 'holds half of a character (an unpaired surrogate); send it whole'],
  ] as const)
    expect(() => readOption(field(kind), value)).toThrow(new FieldError('options.f', problem));
  expect(() => readOption(field('integer', { min: 0 }), -1)).toThrow('must be at least 0, got -1');
});
