import { expect, test } from 'vitest';
import { carriesNumbers, parseReport } from '../../src/contract/numbers.js';

test.each([
  ['{"a": 1}', { value: { a: 1 }, isOdd: false }],
  ['{"a": NaN, "b": -Infinity, "c": [Infinity]}', { value: { a: null, b: null, c: [null] }, isOdd: true }],
  [String.raw`{"NaN \" NaN": NaN}`, { value: { 'NaN " NaN': null }, isOdd: true }],
  [String.raw`["a\\", NaN, "\n"]`, { value: ['a\\', null, '\n'], isOdd: true }],
])('A report is read as Python writes it: %s', (text, report) => {
  expect(parseReport(text)).toEqual(report);
});

test.each(['{"a": nan}', '{"a": NaNa}', '{"a": 1', ''])('Text that is not JSON is refused: %s', (text) => {
  expect(() => parseReport(text)).toThrow(SyntaxError);
});

test('Numbers are read from files of certain names', () => {
  const names = ['measurements.json', 'Evaluation.json', 'Uncertainty.json', 'Metric_TRAIN_2.json'];
  const others = ['my-measurements.json', 'Evaluation.json.bak', 'Metric_.json', 'Metric_a-b.json', 'a.json'];
  expect([...names, ...others].filter((name) => carriesNumbers.test(name))).toEqual(names);
});
