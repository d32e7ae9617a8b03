import { expect, test } from 'vitest';
import { inOneRow } from '../../../src/cli/terminal/drawn-line.js';

test.each([
  ['all of them where there is room', ['ab', 'cd'], 10, 'ab  cd'],
  ['the same width of each where there is not', ['aaaaaa', 'bbbbbb'], 8, 'aaa  bbb'],
  ['what a short one leaves to the others', ['a', 'bbbbbb'], 8, 'a  bbbbb'],
  ['no half of a wide character', ['肝肝肝', 'bb'], 7, '肝  bb'],
  ['nothing that is wider than the row', ['aaa', 'bbb', 'ccc'], 3, ''],
  [
    'the figures of a bar behind a long name',
    ['a-very-long-name-of-a-case-which-goes-on [====    ] 45% 3 s'],
    30,
    'a-very-lon…====    ] 45% 3 s',
  ],
  ['one alone', ['aaaaaa'], 4, 'aaaa'],
])('shows %s', (_, texts, columns, row) => {
  expect(inOneRow(texts, columns).trimEnd()).toBe(row);
});
