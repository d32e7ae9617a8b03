import { expect, test } from 'vitest';
import { LogRows } from '../../../src/cli/terminal/log-rows.js';
import { LineSplitter } from '../../../src/runner/index.js';

/** The rows that remain of what a program prints. */
function rowsOf(output: string): string[] {
  const rows = new LogRows();
  const splitter = new LineSplitter();
  const lines = [...splitter.push(Buffer.from(output)), ...splitter.end()];
  return [...lines.flatMap(({ text, isRedraw }) => rows.push(text, isRedraw)), ...rows.end()];
}

const erase = '\u001b[2K';
const up = '\u001b[A';

/** What tqdm prints for `depth` bars, one in the other, of two steps each; inner bars are taken away. */
function nested(depth: number, level = 0): string {
  const [down, back] = ['\n'.repeat(level), up.repeat(level)];
  const state = (step: number) => `${down}\r${'abc'[level]}: ${step}/2${back}`;
  const inner = level + 1 < depth ? nested(depth, level + 1) : '';
  const end = level === 0 ? `${state(2)}\n` : `${down}\r        ${back}\r`;
  return `${state(0)}${inner}${state(1)}${inner}${state(2)}${end}`;
}

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
  ['a bar in a bar', `start\n${nested(2)}end\n`, ['start', 'a: 2/2', 'end']],
  ['bars in bars in bars', `start\n${nested(3)}${nested(3)}end\n`, ['start', 'a: 2/2', 'a: 2/2', 'end']],
  [
    'a bar in a bar that a program ends with an error',
    `\ra: 1/2\n\rb: 1/2${up}\rTraceback\nerror\n`,
    ['Traceback', 'error'],
  ],
  ['a bar in a bar that is killed', `\ra: 1/2\n\rb: 1/2${up}\n\rb: 2/2${up}`, ['a: 1/2', 'b: 2/2']],
  [
    'a bar in a bar with text between its states',
    `\ra: 0/2\n\rb: 1/2${up}\r   \n\r   \r${up}text\n\ra: 0/2\n\rb: 2/2${up}\n\r     ${up}\ra: 2/2\nend\n`,
    ['text', 'a: 2/2', 'end'],
  ],
  [
    'an inner bar that stays',
    `\ra: 0/2\n\rb: 1/2${up}\rb: 2/2\n\ra: 2/2\nend\n`,
    ['b: 2/2', 'a: 2/2', 'end'],
  ],
])('of %s the last state stays', (_, output, rows) => {
  expect(rowsOf(output)).toEqual(rows);
});

test('the state of a row is known while it may change', () => {
  const rows = new LogRows();
  expect([rows.push('1%', true), rows.states, rows.push('2%', true), rows.states]).toEqual([
    [],
    ['1%'],
    [],
    ['2%'],
  ]);
  expect([rows.push('', false), rows.push('3%', true)]).toEqual([['2%'], []]);
  expect([rows.push('next', false), rows.states]).toEqual([['3%', 'next'], []]);
});

test('all live bars of nested ones are known', () => {
  const rows = new LogRows();
  rows.push('', true);
  rows.push('a: 0/2', false);
  rows.push('', true);
  expect(rows.states).toEqual(['a: 0/2']);
  rows.push(`b: 0/2${up}`, false);
  expect(rows.states).toEqual(['a: 0/2', 'b: 0/2']);
});

test('cursor movements from a server that reports no redraws are lines', () => {
  const rows = new LogRows();
  const lines = ['', 'a: 0/2', '', `b: 0/2${up}`, ''];
  expect(lines.flatMap((line) => rows.push(line, false))).toEqual(lines);
});

test('however many movements there are, and however far they go, they cost little', () => {
  const rows = new LogRows();
  rows.push('', true);
  const began = performance.now();
  for (const text of [
    up.repeat(300_000),
    `${up.repeat(300_000)}x`,
    `x${up.repeat(300_000)}`,
    'x\u001b[99A',
  ]) {
    for (let count = 0; count < 5; count += 1) rows.push(text, false);
  }
  // A step for each row of each movement would take minutes.
  expect(performance.now() - began).toBeLessThan(20_000);
  expect(rows.states.length).toBeLessThanOrEqual(20);
});
