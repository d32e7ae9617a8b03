import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readCaseTable, tableCell } from '../../src/client/csv.js';
import {
  bidsRecordOf,
  isBidsResult,
  isResultDirectory,
  numberedDirectory,
} from '../../src/client/output-names.js';
import { plant, temporary } from '../support/temporary.js';

test('A results directory is recognised by its name and its content', async () => {
  await using root = await temporary();
  const output = path.join(root.path, 'Output');
  const files = ['result.zip', 'remote-app-record.json', 'remote-app-log.txt', 'scan.nii'];
  await plant(root.path, {
    ...Object.fromEntries(files.map((name, at) => [`Output-${at + 2}/${name}`, ''])),
    'Output-06/result.zip': '',
    'Output-old/result.zip': '',
    'Outputs/result.zip': '',
    'Output-7': 'a file',
  });
  const isResult = (name: string) => isResultDirectory(path.join(root.path, name), output);
  expect(['Output', 'Output-2', 'Output-3', 'Output-4'].map(isResult)).toEqual([true, true, true, true]);
  const others = ['Output-5', 'Output-06', 'Output-old', 'Outputs', 'Output-7', 'Output-99', '.'];
  expect(others.filter(isResult)).toEqual([]);
  expect([numberedDirectory('/a', 1), numberedDirectory('/a', 2)]).toEqual(['/a', '/a-2']);
});

test('A result among derivatives is recognised by the prefix of its file names, which leads to its record', () => {
  const names = [
    'sub-01_desc-brain_mask.nii.gz',
    'sub-01_ses-2_desc-x1_',
    'sub-01_desc-brain',
    'sub-01_T1w.nii',
    'x_desc-a_b',
  ];
  expect(names.map(isBidsResult)).toEqual([true, true, false, false, false]);
  expect(names.map(bidsRecordOf)).toEqual([
    'sub-01_desc-brain_record.json',
    'sub-01_ses-2_desc-x1_record.json',
    null,
    null,
    null,
  ]);
});

test('A table is read as it was written', async () => {
  await using root = await temporary();
  const cells = ['=a;"b", c', '@x', 'plain', "'own", 'two\nlines', '-1;=2'];
  const rows = [
    ['case', 'job', 'status', 'reason', 'subject', 'session', 'dice'],
    ['=a', 'j1', 'failed', 'say "no", please', '01', '2', 0.5],
    ['b', '', 'done', null, '', '', null],
  ];
  const write = (lines: readonly (readonly (string | number | null)[])[]) =>
    writeFileSync(
      path.join(root.path, 'cases.csv'),
      lines.map((row) => `${row.map(tableCell).join(',')}\r\n`).join(''),
    );
  write(rows);
  const empty = { reason: '', job: '', subject: '', session: '' };
  expect(readCaseTable(root.path)).toEqual([
    { name: '=a', status: 'failed', reason: 'say "no", please', job: 'j1', subject: '01', session: '2' },
    { ...empty, name: 'b', status: 'done' },
  ]);
  const cellsOf = (text: string) => {
    writeFileSync(path.join(root.path, 'cases.csv'), text);
    return readCaseTable(root.path).map(({ name, status }) => [name, status]);
  };
  expect(cellsOf('case,status\na,"b ""c"" d"\n\n"x\ny",\n')).toEqual([
    ['a', 'b "c" d'],
    ['x\ny', ''],
  ]);
  expect(cellsOf('case,status\r\na,b\r\n,x\r\n\r\n,\r\n"",""')).toEqual([
    ['a', 'b'],
    ['', 'x'],
    ['', ''],
    ['', ''],
  ]);
  expect(cellsOf('')).toEqual([]);
  expect(cells.map(tableCell)).toEqual([`"'=a;""b"", c"`, "'@x", 'plain', "'own", 'two lines', `"'-1;'=2"`]);
  for (const heading of [['case'], ['status'], ['name', 'state']]) {
    write([heading, ['a']]);
    expect(readCaseTable(root.path)).toEqual([]);
  }
  write([['status', 'case'], ['done']]);
  expect(readCaseTable(root.path)).toEqual([{ ...empty, name: '', status: 'done' }]);
  const none = path.join(root.path, 'none');
  mkdirSync(none);
  expect(readCaseTable(none)).toEqual([]);
});
