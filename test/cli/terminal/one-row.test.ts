import { expect, test } from 'vitest';
import { cutRow } from '../../../src/cli/terminal/cut-text.js';

test.each([
  ['all of it where there is room', 'aaaa', 4, 'aaaa'],
  ['its beginning where there is not', 'aaaaaa', 4, 'aaaa'],
  ['no half of a wide character', '肝肝肝', 3, '肝'],
  [
    'the figures of a bar behind a long name',
    'a-very-long-name-of-a-case-which-goes-on [====    ] 45% 3 s',
    30,
    'a-very-lon…====    ] 45% 3 s',
  ],
])('of a row shows %s', (_, text, columns, row) => {
  expect(cutRow(text, columns)).toBe(row);
});
