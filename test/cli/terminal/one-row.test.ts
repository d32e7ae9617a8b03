import { expect, test } from 'vitest';
import { cutMiddle, cutRow, cutToWidth } from '../../../src/cli/terminal/cut-text.js';

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
])('A cut row shows %s', (_, text, columns, row) => {
  expect(cutRow(text, columns)).toBe(row);
});

test.each([
  ['as it is', 'abcdef', 6, 'abcdef'],
  ['without its middle', 'abcdefg', 6, 'abc…fg'],
  ['with as much of its end as of its beginning', 'abcdefgh', 7, 'abc…fgh'],
  ['with whole characters', '肝臓腫瘍肝臓', 8, '肝臓…臓'],
])('A name is shown %s', (_, text, columns, cut) => {
  expect(cutMiddle(text, columns)).toBe(cut);
});

test.each([
  [
    'whose figures fit',
    `${'n'.repeat(20)} 45% of it and more text behind`,
    30,
    'nnnnnnnnnnnnnnnnnnnn 45% of it',
  ],
  ['on a narrow terminal', `${'n'.repeat(20)} 45%`, 14, 'n'.repeat(14)],
  ['without figures', 'n'.repeat(40), 30, 'n'.repeat(30)],
])('A row %s shows its beginning', (_, text, columns, row) => {
  expect(cutRow(text, columns)).toBe(row);
});

test('A character of several code points is not split', () => {
  expect(cutToWidth('ae\u0301e\u0301', 2)).toBe('ae\u0301');
});
