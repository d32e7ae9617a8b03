import { expect, test } from 'vitest';
import { describeJob, listJobs } from '../../../src/cli/jobs/job-text.js';
import { formatMemory, formatPairs, formatTable } from '../../../src/cli/terminal/format.js';
import { Colours } from '../../../src/cli/terminal/index.js';
import { jobAnswer } from '../../../src/client/connection/answer-schemas.js';
import { nextCommand } from '../../../src/client/next-command.js';
import { formatBytes } from '../../../src/contract/text.js';

const plain = new Colours({}, {});

test('bytes are counted in powers of 1024', () => {
  expect([0, 1023, 1024, 1536, 6 * 1024 ** 3].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '6.0 GiB',
  ]);
});

test('memory is shown as used of total', () => {
  expect(formatMemory({ used_gb: 1.25, total_gb: 64 })).toBe('1.3 of 64.0 GB');
});

test('tables are aligned, and their lines have no trailing blanks', () => {
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

test('columns are aligned by their width on a terminal, with wide characters and colours', () => {
  const red = (text: string) => `\u001b[31m${text}\u001b[39m`;
  const rows = [
    ['肝臓', 'x'],
    [{ text: 'e\u0301\u001b', paint: red }, 'y'],
  ];
  const wide = ['APP       B', '肝臓      x', `${red('e\u0301\\x1b')}     y`];
  expect(formatTable(['APP     ', 'B'], rows)).toEqual(wide);
});

test('pairs without a value are left out', () => {
  expect(
    formatPairs([
      ['Job', 'x'],
      ['Status', 'done'],
      ['Error', null],
    ]),
  ).toEqual(['Job     x', 'Status  done']);
});

test('a job is shown with only the facts that the server sends', () => {
  const checked = jobAnswer('ab').check({ status: 'running' });
  if (!checked.success) throw new Error('it is not accepted as a job');
  const little = checked.data;
  expect(describeJob(little, 0, plain, { nextCommand })).toEqual(['Job     ab', 'Status  running']);
  expect(listJobs([little], 0, plain)[1]).toBe('ab   running');
  expect(listJobs([], 0, plain)).toEqual([]);
});

test('text from outside stays on one line and is cut in tables', () => {
  expect(formatPairs([['App', 'a\nb\u009b']])).toEqual(['App  a\\x0ab\\x9b']);
  const rows = formatTable(['A', 'B'], [['x'.repeat(1e6), 'a\nb'], ...Array(200_000).fill(['y', 'z'])]);
  expect(rows).toHaveLength(200_002);
  expect(rows[1]).toBe(`${'x'.repeat(80)}...  a\\x0ab`);
});
