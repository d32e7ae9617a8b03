import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { describeJob } from '../../../src/cli/jobs/job-text.js';
import { hasColour } from '../../../src/cli/terminal/command-io.js';
import {
  columnsOf,
  formatMemory,
  formatPairs,
  formatTable,
  wrapped,
} from '../../../src/cli/terminal/format.js';
import { Colours, fitted } from '../../../src/cli/terminal/index.js';
import { jobAnswer } from '../../../src/client/connection/answer-schemas.js';
import { nextCommand } from '../../../src/client/next-command.js';

const plain = new Colours({}, {});

test('Memory is shown as used of total', () => {
  expect(formatMemory({ used_gb: 1.25, total_gb: 64 })).toBe('1.3 of 64.0 GB');
});

test('Tables are aligned, and their lines have no trailing blanks', () => {
  expect(
    formatTable(
      ['A', 'LONG'],
      [
        ['wide cell', 'x'],
        ['y', ''],
      ],
    ),
  ).toEqual(['A          LONG', 'wide cell  x', 'y']);
});

test('Columns are aligned by their width on a terminal, with wide characters and colours', () => {
  const red = (text: string) => `\u001b[31m${text}\u001b[39m`;
  const rows = [
    ['肝臓', 'x'],
    [{ text: 'e\u0301\u001b', paint: red }, 'y'],
  ];
  const wide = ['APP       B', '肝臓      x', `${red('e\u0301\\x1b')}     y`];
  expect(formatTable(['APP     ', 'B'], rows)).toEqual(wide);
});

test('Pairs without a value are omitted', () => {
  expect(
    formatPairs([
      ['Job', 'x'],
      ['Status', 'done'],
      ['Error', null],
    ]),
  ).toEqual(['Job     x', 'Status  done']);
});

test('A job is shown with only the facts that the server sends', () => {
  const checked = jobAnswer('ab').check({ status: 'running' });
  if (!checked.success) throw new Error('it is not accepted as a job');
  const little = checked.data;
  expect(describeJob(little, 0, plain, { nextCommand })).toEqual(['Job     ab', 'Status  running']);
});

test('Text from outside stays on one line, and is truncated in tables', () => {
  expect(formatPairs([['App', 'a\nb\u009b']])).toEqual(['App  a\\x0ab\\x9b']);
  const rows = formatTable(['A', 'B'], [['x'.repeat(1e6), 'a\nb'], ...Array(200_000).fill(['y', 'z'])]);
  expect(rows).toHaveLength(200_002);
  expect(rows[1]).toBe(`${'x'.repeat(80)}...  a\\x0ab`);
});

test.each([
  ['what fits as it is', 'some words of a text', 20, 2, ['some words of a text']],
  ['a text that is too long, between words', 'some words of a text!', 20, 0, ['some words of a', 'text!']],
  [
    'further lines with an indent',
    'name  some words of a text',
    26 - 1,
    4,
    ['name  some words of a', '    text'],
  ],
  ['nothing beside so few columns', 'some words of a text!', 20, 1, ['some words of a text!']],
  ['no word that is too long itself', `a ${'b'.repeat(30)} c`, 24, 0, ['a', 'b'.repeat(30), 'c']],
  [
    'the blanks that a line begins with, once',
    `   ${'word '.repeat(5)}`,
    22,
    1,
    ['   word word word word', ' word'],
  ],
  ['wide characters by their width', '肝臓 腫瘍 肝臓 腫瘍 肝臓', 20, 0, ['肝臓 腫瘍 肝臓 腫瘍', '肝臓']],
])('A terminal gets %s', (_, text, columns, indent, lines) => {
  expect(wrapped(text, columns, indent)).toEqual(lines);
  expect(wrapped(text)).toEqual([text]);
});

test('Values are wrapped next to their names, except coloured ones', () => {
  const words = 'one two three four five six seven';
  const painted = { text: words, paint: (text: string) => `<${text}>` };
  expect(
    formatPairs(
      [
        ['Name', words],
        ['State', painted],
        ['Empty', ''],
      ],
      28,
    ),
  ).toEqual(['Name   one two three four', '       five six seven', `State  <${words}>`]);
  expect(formatPairs([['Long', 'x'.repeat(4001)]])).toEqual([`Long  ${'x'.repeat(4000)}...`]);
});

test('Text is wrapped for a terminal that says how wide it is', () => {
  const stream = (more: object) => Object.assign(new PassThrough(), more);
  const streams = [
    { isTTY: true, columns: 100 },
    { isTTY: true },
    { isTTY: true, columns: 0 },
    { columns: 9 },
  ];
  expect(streams.map((more) => columnsOf(stream(more)))).toEqual([100, undefined, undefined, undefined]);
});

test.each([
  ['a terminal', true, {}, true],
  ['a pipe', false, {}, false],
  ['a pipe where colours are forced', false, { FORCE_COLOR: '1', NO_COLOR: '1', CI: '1' }, true],
  ['a terminal where they are forced off', true, { FORCE_COLOR: '0' }, false],
  ['a terminal where they are forced off by a word', true, { FORCE_COLOR: 'false' }, false],
  ['a terminal of somebody who wants none', true, { NO_COLOR: '1' }, false],
  ['a terminal that continuous integration imitates', true, { CI: 'true' }, false],
  ['a terminal without abilities', true, { TERM: 'dumb' }, false],
])('Colours are on or off as expected for %s', (_, isTTY, env, has) => {
  expect(hasColour({ isTTY }, env)).toBe(has);
  const colours = new Colours({ isTTY }, env);
  const painted = (text: string, code: number, end: number) =>
    has ? `\u001b[${code}m${text}\u001b[${end}m` : text;
  expect([colours.error('e'), colours.warning('w'), colours.hint('h')]).toEqual([
    painted('e', 31, 39),
    painted('w', 33, 39),
    painted('h', 2, 22),
  ]);
  const states = ['queued', 'waiting', 'running', 'done', 'error', 'killed', 'toString'];
  expect(states.map((name) => colours.state(name)('x'))).toEqual([
    painted('x', 2, 22),
    painted('x', 2, 22),
    painted('x', 36, 39),
    painted('x', 32, 39),
    painted('x', 31, 39),
    painted('x', 33, 39),
    'x',
  ]);
});

test('A table that is too wide has its widest name cut, down to ten columns, and then loses columns', () => {
  const state = { text: 'running', paint: (text: string) => `<${text}>` };
  const table = {
    heading: ['JOB', 'NAME', 'OTHER', 'STATE', 'SIZE'],
    rows: [['a1', 'a-long-name-of-a-case', 'another-name', state, '10 B']],
  };
  const narrowing = { names: ['NAME', 'OTHER'], dispensable: ['OWNER', 'SIZE', 'STATE'] };
  const at = (columns?: number) => {
    const { heading, rows } = fitted(table, narrowing, columns);
    return [heading.join(), rows[0]?.map((cell) => (typeof cell === 'string' ? cell : cell.text)).join()];
  };
  const whole = [table.heading.join(), 'a1,a-long-name-of-a-case,another-name,running,10 B'];
  // 3 + 21 + 12 + 7 + 4 columns, and two blanks between each two of them.
  expect([at(), at(55)]).toEqual([whole, whole]);
  expect(at(54)[1]).toBe('a1,a-long-nam…of-a-case,another-name,running,10 B');
  expect(at(42)).toEqual([whole[0], 'a1,a-lon…case,anoth…name,running,10 B']);
  expect(at(41)).toEqual(['JOB,NAME,OTHER,STATE', 'a1,a-long…a-case,another-name,running']);
  expect(at(35)).toEqual(['JOB,NAME,OTHER', 'a1,a-long-n…-a-case,another-name']);
  expect(at(10)).toEqual(['JOB,NAME,OTHER', 'a1,a-long-name-of-a-case,another-name']);
});
