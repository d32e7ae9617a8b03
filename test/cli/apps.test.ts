import { expect, test } from 'vitest';
import { colourOf, inSentences } from '../../src/cli/apps/model-app.js';

test('Labels get distinct colours, which are the same each time', () => {
  expect([0, 1, 2, 3, 4].map(colourOf)).toEqual(['#d66851', '#2bb66a', '#ce8be4', '#d1d651', '#2b87b6']);
  expect(new Set(Array.from({ length: 120 }, (_, at) => colourOf(at))).size).toBe(120);
});

test('The description of an app has each fact as a sentence', () => {
  const facts = ['A network', '', ' Segments the liver! ', 'Which one?\n', 'v1.0 of a network'];
  expect(inSentences(facts)).toBe('A network. Segments the liver! Which one? v1.0 of a network.');
});
