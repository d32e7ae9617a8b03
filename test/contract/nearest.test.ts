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
])('of %j', (word, meant) => {
  expect(nearest(word, commands)).toBe(meant);
});

test('the nearest of several names, and none if no name is near', () => {
  expect(nearest('tisue', ['issues', 'tissue', 'tissues'])).toBe('tissue');
  expect(nearest('ImpactSynth:MR', ['VBoussot/ImpactSynth:MR', 'tissue'])).toBe('VBoussot/ImpactSynth:MR');
  expect(nearest('tissue', [])).toBe(null);
});
