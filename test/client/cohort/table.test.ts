import { statSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import type { CaseState } from '../../../src/client/cohort/index.js';

import { CaseTable, newState } from '../../../src/client/cohort/table.js';
import { showMonotonicTime } from '../../support/monotonic-time.js';
import { temporary } from '../../support/temporary.js';
import { memoryReporter } from '../support/connect.js';

const silent = { reporterOf: () => memoryReporter(), began: () => {}, changed: () => {} };
const fail = (error: Error) => {
  throw error;
};

const casesOf = (names: readonly string[]) => names.map((name) => ({ name, subject: null, session: null }));

/** The lines of a table of these cases, all of them done. */
async function linesOf(states: Readonly<Record<string, Partial<CaseState>>>) {
  await using root = await temporary();
  const table = new CaseTable(casesOf(Object.keys(states)), [], root.path, silent, fail);
  for (const [name, state] of Object.entries(states)) table.change(name, { status: 'done', ...state });
  table.write();
  const text = await readFile(table.file, 'utf8');
  return { lines: text.trimEnd().split('\r\n'), notes: table.notes };
}

test.each([
  ['=1+1', "'=1+1"],
  ['dose;=1+1;@SUM(1)', '"dose;\'=1+1;\'@SUM(1)"'],
  ['a; -2', '"a; \'-2"'],
  ['a\t=1', "a\\x09'=1"],
  ['two\r\n=lines', 'two =lines'],
  ['\u001b]0;title\u0007\u001b[2J', '"\\x1b]0;title\\x07\\x1b[2J"'],
  ['say "no", please', '"say ""no"", please"'],
  ['\u202egpj', '\\u202egpj'],
])('A cell is neither evaluated by a spreadsheet nor interpreted by a terminal: %j', async (reason, cell) => {
  const { lines } = await linesOf({ a: { reason, status: 'failed' } });
  expect(lines[1]).toBe(`a,failed,${cell},,,`);
});

test('Names of cases and of numbers are escaped like other cells', async () => {
  const { lines } = await linesOf({ 'x;=1+1': { numbers: { '=dice': 1, 'a;@b': -2 } } });
  expect(lines).toEqual([`case,status,reason,version,seconds,job,'=dice,"a;'@b"`, `"x;'=1+1",done,,,,,1,-2`]);
});

test('If the names of numbers contain the case, the table is limited to 500 columns of numbers', async () => {
  const names = Array.from({ length: 700 }, (_, at) => `sub-${at}`);
  const states = names.map((name) => [name, { numbers: { [`${name}.ml`]: 1, dice: 0.5 } }] as const);
  const { lines, notes } = await linesOf(Object.fromEntries(states));
  expect(lines[0]?.split(',')).toHaveLength(6 + 500);
  expect(lines[0]).toContain(',dice');
  expect([lines.length, notes]).toEqual([
    701,
    ['cases.csv has no column for 201 numbers that few cases have; the records have them'],
  ]);
});

test('The table is written at most once a second', async () => {
  await using root = await temporary();
  let now = 10_000;
  showMonotonicTime(() => now);
  const table = new CaseTable(casesOf(['a', 'b', 'c']), [], root.path, silent, fail);
  const read = () => readFile(table.file, 'utf8').catch(() => '');
  table.change('a', { status: 'done' });
  const first = await read();
  expect(first).toContain('a,done');
  now += 999;
  table.change('b', { status: 'done' });
  expect(await read()).toBe(first);
  now += 1;
  table.change('c', { status: 'failed', reason: 'x' });
  expect(await read()).toContain('b,done');
  vi.restoreAllMocks();
});

test('A table has a row for each case, including those of earlier commands, and a column for whatever any case has', async () => {
  await using root = await temporary();
  const about = { subject: null, session: '2', version: '7', numbers: { dice: 0.5 } };
  const b = { ...newState, ...about, name: 'b', status: 'orphaned' } as const;
  const changes: CaseState[] = [];
  const watcher = { ...silent, changed: (state: CaseState) => void changes.push(state) };
  const cases = ['c', 'a10', 'a9', 'd', 'e'].map((name) => ({
    name,
    subject: name === 'c' ? '01' : null,
    session: null,
  }));
  const table = new CaseTable(cases, [b], root.path, watcher, fail);
  table.change('c', { status: 'done', seconds: 3, jobId: 'j', numbers: { ml: 7 }, isNew: true });
  for (const [name, status] of [
    ['a9', 'running'],
    ['a10', 'failed'],
    ['d', 'reading'],
    ['nobody', 'done'],
  ] as const)
    table.change(name, { status, reason: status === 'failed' ? 'x' : null });
  table.write();
  expect((await readFile(table.file, 'utf8')).split('\r\n')).toEqual([
    'case,status,reason,version,seconds,job,subject,session,dice,ml',
    'a9,waiting,,,,,,,,',
    'a10,failed,x,,,,,,,',
    'b,orphaned,,7,,,,2,0.5,',
    'c,done,,,3,j,01,,,7',
    'd,waiting,,,,,,,,',
    'e,waiting,,,,,,,,',
    '',
  ]);
  expect(changes.map(({ name, status }) => [name, status])).toEqual([
    ['c', 'done'],
    ['a9', 'running'],
    ['a10', 'failed'],
    ['d', 'reading'],
  ]);
  expect(
    [table.inState('waiting'), table.inState('done')].map((each) => each.map(({ name }) => name)),
  ).toEqual([['e'], ['c']]);
  expect(statSync(table.file).mode & 0o777).toBe(0o666 & ~process.umask());
});

test('If the table cannot be written, the error says so and how to continue', async () => {
  await using root = await temporary();
  const faults: Error[] = [];
  await mkdir(path.join(root.path, 'cases.csv'));
  const table = new CaseTable(casesOf(['a']), [], root.path, silent, (error) => faults.push(error));
  table.write();
  table.write();
  expect(faults.map(({ message }) => message)).toEqual([
    expect.stringMatching(
      /^Cannot write '\S+cases\.csv': .*, then give the same command again: finished cases are kept$/,
    ),
  ]);
});
