import { expect, test } from 'vitest';
import { LogRows } from '../../../src/cli/terminal/log-rows.js';
import { LineSplitter } from '../../../src/runner/log.js';

/** The rows that remain of what a program prints. */
function rowsOf(output: string): string[] {
  const rows = new LogRows();
  const splitter = new LineSplitter();
  const lines = [...splitter.push(Buffer.from(output)), ...splitter.end()];
  return [...lines.flatMap(({ text, isRedraw }) => rows.push(text, isRedraw)), ...rows.end()];
}

const erase = '\u001b[2K';
const up = '\u001b[A';

test.each([
  ['lines', 'a\n\nb\r\nc', ['a', '', 'b', 'c']],
  ['a bar whose states begin with a return (tqdm)', 'a\n\r 0%\r50%\r100%\nb\n', ['a', '100%', 'b']],
  ['a bar whose states end with one', 'a\n0%\r50%\r100%\rb\n', ['a', '100%', 'b']],
  ['a bar whose states end with one, but for the last', 'a\nCase 1/2\rCase 2/2\nb\n', ['a', 'Case 2/2', 'b']],
  ['a bar whose last state ends with both', '[=-] 1%\r[==] 99%\r\nb\n', ['[==] 99%', 'b']],
  ['a bar whose states begin and end with one', '\r50%\r\r100%\rb\n', ['100%', 'b']],
  ['a bar that is overwritten with blanks at its end', '\r50%\r100%\r    \rb\n', ['b']],
  [
    'a bar that is deleted before each state',
    `\r${erase}50%\r${erase}100%\ndone\n`,
    [`${erase}100%`, 'done'],
  ],
  ['a bar that is deleted at its end', `\r50%\r${erase}\rdone\n`, ['done']],
  ['one bar after the other', '\r50%\r100%\n\r5%\r10%\n', ['100%', '10%']],
  ['one after another that was taken away', '\r50%\r   \r\r5%\r10%\n', ['10%']],
  ['a bar at the end of the log', 'a\n\r50%\r99%\r', ['a', '99%']],
  ['a bar that was cut off', '\r50%\r99%', ['99%']],
])('The last state of %s is kept', (_, output, rows) => {
  expect(rowsOf(output)).toEqual(rows);
});

test.each([
  [
    'all states of the inner one, and the outer one where it is drawn last',
    `start\n\ra: 0/1\n\rb: 1/2${up}\n\rb: 2/2${up}\n\r       ${up}\ra: 1/1\nend\n`,
    ['start', 'a: 0/1', 'b: 1/2', 'b: 2/2', 'a: 1/1', 'end'],
  ],
  ['no empty row for a bar that is taken away', `a: 1/1\n       ${up}\n${up}end\n`, ['a: 1/1', 'end']],
  ['no sequence, however far it goes up', `x\u001b[12A\n${up.repeat(3)}y${up}\n`, ['x', 'y']],
])('Lines of nested bars are kept, without cursor movements: %s', (_, output, rows) => {
  expect(rowsOf(output)).toEqual(rows);
});

test('The state of a row is known while it may change', () => {
  const rows = new LogRows();
  expect([rows.push('1%', true), rows.state, rows.push('2%', true), rows.state]).toEqual([
    [],
    '1%',
    [],
    '2%',
  ]);
  expect([rows.push('', false), rows.push('3%', true)]).toEqual([['2%'], []]);
  expect([rows.push('next', false), rows.state]).toEqual([['3%', 'next'], null]);
});
