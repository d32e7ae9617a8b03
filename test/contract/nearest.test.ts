import { expect, test } from 'vitest';
import { nearest } from '../../src/contract/text.js';

const commands = ['fine-tune', 'infer', 'jobs', 'login', 'logs', 'result', 'uncertainty'];

test.each([
  ['infre', 'infer'],
  ['INFER', 'infer'],
  ['log', 'logs'],
  ['finetune', 'fine-tune'],
  ['reslut', 'result'],
  ['uncertain', 'uncertainty'],
  ['tune', 'fine-tune'],
  ['xyzzy', null],
  ['', null],
  ['ls', null],
  ['i'.repeat(1_000_000), null],
])('The nearest command to %j is found', (word, meant) => {
  expect(nearest(word, commands)).toBe(meant);
});

test.each([
  // A third of the letters may differ, and one of a short word.
  ['xbcdef', 'abcdef', true],
  ['xycdef', 'abcdef', true],
  ['xyzdef', 'abcdef', false],
  ['ax', 'ab', true],
  ['xy', 'ab', false],
  // Two letters that are swapped differ once, wherever they stand.
  ['ba', 'ab', true],
  ['bacd', 'abcd', true],
  ['abdc', 'abcd', true],
  // Part of a longer word, from three letters on.
  ['cde', 'abcdefghijkl', true],
  ['cd', 'abcdefghijkl', false],
  [`y${'x'.repeat(199)}`, 'x'.repeat(200), true],
  [`y${'x'.repeat(199)}`, 'x'.repeat(201), false],
  ['x'.repeat(201), 'x'.repeat(201), false],
])('%s is near to %s: %s', (word, known, isNear) => {
  expect(nearest(word, [known])).toBe(isNear ? known : null);
});

test('The nearest of several names is suggested, and none if no name is near', () => {
  expect(nearest('tisue', ['issues', 'tissue', 'tissues'])).toBe('tissue');
  expect(nearest('ImpactSynth:MR', ['VBoussot/ImpactSynth:MR', 'tissue'])).toBe('VBoussot/ImpactSynth:MR');
  expect(nearest('tisue', ['tissues', 'tissue'])).toBe('tissue');
  expect(nearest('tissue', [])).toBe(null);
});
