import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { Study } from './study.js';

/** A way to store a study: where the scan of a person and a session lies, and what its case is called. */
interface Storage {
  readonly scan: (person: string, session?: string) => string;
  readonly name: (person: string, session?: string) => string;
}

const ways: readonly [string, Storage][] = [
  [
    'BIDS',
    {
      scan: (person, session = '1') =>
        `bids/sub-${person}/ses-${session}/anat/sub-${person}_ses-${session}_T1w.nii`,
      name: (person, session = '1') => `sub-${person}_ses-${session}_T1w`,
    },
  ],
  [
    'plain folders',
    {
      scan: (person, session = '1') => `bids/${person}/visit${session}/t1.nii`,
      name: (person, session = '1') => `${person}/visit${session}/t1`,
    },
  ],
];

/** The rows of the table by their names: status, what the mask says, the number. */
function rowsOf(study: Study): Record<string, [string, string, string]> {
  const [heading = [], ...rows] = study.table;
  const at = (row: readonly string[], column: string) => row[heading.indexOf(column)] ?? '';
  return Object.fromEntries(
    rows.map((row) => {
      const file = study.at('Out', at(row, 'case'), 'mask.nii');
      const mask = existsSync(file) ? readFileSync(file, 'utf8') : '';
      return [at(row, 'case'), [at(row, 'status'), mask, at(row, 'letters')]];
    }),
  );
}

const reasonOf = (study: Study, name: string) => study.table.find((row) => row[0] === name)?.[2];

describe.each(ways)('a study in %s', (way, { scan, name }) => {
  test(`In a study in ${way} that grows, a case keeps the name that its path gives it`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    expect((await study.run()).code).toBe(0);
    await plant(study.cli.directory, { [scan('A', '2')]: 'three', [scan('C')]: 'four' });
    const { code, stderr } = await study.run();
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('4 cases: 4 done (2 of them before)\n');
    expect(rowsOf(study)).toEqual({
      [name('A')]: ['done', 'mask of one', '3'],
      [name('A', '2')]: ['done', 'mask of three', '5'],
      [name('B')]: ['done', 'mask of twoo', '4'],
      [name('C')]: ['done', 'mask of four', '4'],
    });
    // A part of it, and without what the directory of the results knows: the same names.
    rmSync(study.at('Out/.remote-app'), { recursive: true });
    expect((await study.run('--exclude', '*C*')).stderr).toContain('3 cases: 3 done (3 of them before)\n');
    expect(Object.values(rowsOf(study)).map(([status]) => status)).toEqual(['done', 'done', 'done', 'done']);
    expect(study.computed).toHaveLength(4);
  });

  test(`In a study in ${way}, the rows of two people are correct after their files were swapped, and swapped back`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    await study.run();
    const swap = async () => {
      const [a, b] = [study.at(scan('A')), study.at(scan('B'))];
      renameSync(a, `${a}.x`);
      renameSync(b, a);
      renameSync(`${a}.x`, b);
      return (await study.run()).code;
    };
    expect(await swap()).toBe(0);
    expect(rowsOf(study)).toEqual({
      [name('A')]: ['done', 'mask of twoo', '4'],
      [name('B')]: ['done', 'mask of one', '3'],
    });
    expect(await swap()).toBe(0);
    expect(rowsOf(study)).toEqual({
      [name('A')]: ['done', 'mask of one', '3'],
      [name('B')]: ['done', 'mask of twoo', '4'],
    });
  });

  test(`In a study in ${way}, the row of a person who was renamed is marked, and nothing is deleted`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    await study.run();
    await plant(study.cli.directory, { [scan('Z')]: 'one' });
    rmSync(study.at(scan('A')));
    const { code, stderr } = await study.run();
    expect(code, stderr).toBe(0);
    expect(stderr).toContain(`The table marks results whose input was not found: ${name('A')}\n`);
    expect(rowsOf(study)).toEqual({
      [name('A')]: ['orphaned', 'mask of one', '3'],
      [name('B')]: ['done', 'mask of twoo', '4'],
      [name('Z')]: ['done', 'mask of one', '3'],
    });
    expect(reasonOf(study, name('A'))).toBe('Its input was not found');
  });

  test(`In a study in ${way}, a command for a directory or a file in it leaves the other rows as they are`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    await study.run();
    for (const part of [path.dirname(scan('B')), scan('B')]) {
      const words = study.words.map((word) => (word === 'bids' ? part : word));
      expect((await study.cli.run(words, study.env)).code).toBe(0);
      expect(study.table.map(([, status]) => status)).not.toContain('orphaned');
      rmSync(study.at('Out', 'bids'), { recursive: true, force: true });
      rmSync(study.at('Out', 't1'), { recursive: true, force: true });
    }
  });

  test(`In a study in ${way}, a rescan is computed under the same name, and one that fails says which result is there`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    await study.run();
    writeFileSync(study.at(scan('A')), 'another');
    expect((await study.run()).stderr).toContain('2 cases: 2 done (1 of them before)\n');
    expect(rowsOf(study)[name('A')]).toEqual(['done', 'mask of another', '7']);
    writeFileSync(study.at(scan('A')), 'bad');
    expect((await study.run()).code).toBe(1);
    expect(rowsOf(study)[name('A')]).toEqual(['failed', 'mask of another', '']);
    expect(reasonOf(study, name('A'))).toMatch(/[^.]; the existing result was made from an earlier input"$/);
  });

  test(`In a study in ${way}, a correction is kept, and stays next to the new result when its input changes`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    await study.run();
    const read = (file: string) => readFileSync(study.at('Out', name('A'), file), 'utf8');
    appendFileSync(study.at('Out', name('A'), 'mask.nii'), ', corrected');
    const same = await study.run();
    expect(same.stderr).toContain('2 cases: 2 done (2 of them before)\n');
    expect(same.stderr).toContain(`  ${name('A')}: changed by a person: mask.nii\n`);
    expect([read('mask.nii'), reasonOf(study, name('A'))]).toEqual([
      'mask of one, corrected',
      "Edited by a person: 'mask.nii'",
    ]);
    writeFileSync(study.at(scan('A')), 'rescan');
    const changed = await study.run();
    expect(changed.stderr).toContain(`  ${name('A')}: changed by a person: mask_edited.nii\n`);
    expect([read('mask.nii'), read('mask_edited.nii')]).toEqual(['mask of rescan', 'mask of one, corrected']);
    expect(reasonOf(study, name('A'))).toBe("A person changed 'mask_edited.nii' of an earlier result");
    expect((await study.run()).stderr).toContain('2 cases: 2 done (2 of them before)\n');
    // --force computes again, and keeps what is there.
    writeFileSync(study.at('Out', name('B'), 'mask.nii'), 'drawn');
    expect((await study.run('--force')).code).toBe(0);
    expect(readFileSync(study.at('Out', name('B'), 'mask_edited.nii'), 'utf8')).toBe('drawn');
    expect(read('mask_edited.nii')).toBe('mask of one, corrected');
  });

  test(`In a study in ${way}, another app is refused`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one' });
    await study.run();
    const record = study.at('Out', name('A'), 'remote-app-record.json');
    writeFileSync(record, readFileSync(record, 'utf8').replace('"app": "masker"', '"app": "other"'));
    const { code, stderr } = await study.run();
    expect(code, stderr).toBe(2);
    expect(stderr).toContain("has results of 'other' (infer), and this is 'masker' (infer): name another");
    expect(rowsOf(study)[name('A')]?.[1]).toBe('mask of one');
  });

  test(`In a study in ${way}, an upgrade of the app stops the command, which --keep-version or --force lets continue`, async () => {
    await using study = await Study.create([]);
    await plant(study.cli.directory, { [scan('A')]: 'one', [scan('B')]: 'twoo' });
    await study.run();
    await upgrade(study);
    await plant(study.cli.directory, { [scan('C')]: 'three' });
    const stopped = await study.run();
    expect(stopped.code, stopped.stderr).toBe(2);
    expect(stopped.stderr).toMatch(
      /The app 'masker' is version '\w+' now, and 2 results here are of version '\w+': give --force .*, or --keep-version/,
    );
    expect(study.computed).toHaveLength(2);
    expect((await study.run('--keep-version')).stderr).toContain('3 cases: 3 done (2 of them before)\n');
    const versions = () => study.table.slice(1).map((row) => row[3]);
    expect(versions().map((each) => each === versions()[0])).toEqual([true, true, false]);
    const reasons = () => study.table.slice(1).map((row) => row[2]);
    expect(reasons()).toEqual(['', '', 'It was made by another version of the app than most rows']);
    expect((await study.run('--keep-version')).stderr).toMatch(
      /cases\.csv has results of 2 versions of the app: '\w+' \(2 rows\), '\w+' \(1 row\)\n/,
    );
    await upgrade(study);
    expect((await study.run()).stderr).toMatch(
      /3 results here are of version '(\w+)', '(?!\1)\w+': give --force/,
    );
    expect((await study.run('--force')).code).toBe(0);
    expect([new Set(versions()).size, reasons()]).toEqual([1, ['', '', '']]);
    expect((await study.run()).stderr).toContain('3 cases: 3 done (3 of them before)\n');
  });
});

test('With --skip-incomplete, the row of a case whose second file is gone is marked', async () => {
  await using study = await Study.create([]);
  const files = { 't1/A.nii': 'one', 't1/B.nii': 'twoo', 'flair/A.nii': 'x', 'flair/B.nii': 'y' };
  await plant(study.cli.directory, files);
  const words = ['infer', '--each', '-i', 't1', '-i', 'flair', '-o', 'Out', '--skip-incomplete'];
  expect((await study.cli.run(words, study.env)).code).toBe(0);
  rmSync(study.at('flair/A.nii'));
  const { stderr } = await study.cli.run(words, study.env);
  expect(stderr).toContain('The table marks results whose input was not found: A\n');
  expect(rowsOf(study)).toEqual({ A: ['orphaned', 'mask of one', '3'], B: ['done', 'mask of twoo', '4'] });
});

/** Puts another version of the app on the server. */
async function upgrade(study: Study): Promise<void> {
  appendFileSync(path.join(study.cli.home, 'masker', 'main.mjs'), '// changed\n');
  const ended = await study.cli.run(['apps', 'masker', '--refresh'], study.env);
  if (ended.code !== 0) throw new Error(ended.stderr);
}

test('An upgrade of the app while a job runs stops the command, and the next one computes the case again', async () => {
  await using study = await Study.create(['one', 'two']);
  const main = path.join(study.cli.home, 'masker', 'main.mjs');
  const before = readFileSync(main);
  /** Upgrades the app while a case of a command runs. */
  const upgraded = async () => {
    study.close();
    const count = study.computed.length;
    const running = study.cli.begin([...study.words, '--at-most', '1'], study.env);
    await until('a case runs', () => study.computed.length > count);
    await upgrade(study);
    await study.open();
    return running.ended;
  };
  const statuses = () => study.table.slice(1).map((row) => row[1]);
  const first = await upgraded();
  expect(first.code, first.stderr).toBe(2);
  expect(first.stderr).toMatch(/The app 'masker' is version '\w+' now, and changed during this run: run the/);
  expect(statuses()).toEqual(['failed', 'waiting']);
  expect(reasonOf(study, 'sub-01_T1w')).toContain('The app changed while the job was running');
  expect(readFileSync(study.at('Out', 'sub-01_T1w', 'mask.nii'), 'utf8')).toBe('mask of one');
  // The server still has the job of the first command, with the version that is the current one again.
  writeFileSync(main, before);
  expect((await study.run()).stderr).toContain('2 cases: 2 done\n');
  expect(study.computed).toEqual(['one', 'one', 'two']);

  await plant(study.at('bids'), { 'sub-03_T1w.nii': 'three', 'sub-04_T1w.nii': 'four' });
  expect((await upgraded()).stderr).toMatch(/2 results here are of version .* or --keep-version/);
  expect(statuses()).toEqual(['done', 'done', 'failed', 'waiting']);
  expect((await study.run('--keep-version')).stderr).toContain('4 cases: 4 done (3 of them before)\n');
});

test('Two files that would be the same case are refused by name', async () => {
  await using study = await Study.create([]);
  await plant(study.cli.directory, { 's/A/t1.nii': 'x', 's/A/t1.mha': 'x', 's/B/t1.nii': 'x' });
  const run = (...paths: string[]) => study.cli.run(['infer', '--each', ...paths, '-o', 'Out'], study.env);
  const of = (a: string, b: string) => `'${a}' and '${b}' would both be the case 't1'`;
  expect((await run('s/A/t1.nii', 's/A/t1.mha')).stderr).toContain("would both be the case 's/A/t1'");
  expect((await run('s/A', 's/B', '--exclude', '*.mha')).stderr).toContain(of('s/A/t1.nii', 's/B/t1.nii'));
  await plant(study.cli.directory, { 'n/A.nii': 'x', 'n/A/t1.nii': 'x' });
  expect((await run('n')).stderr).toContain("The result of 'n/A/t1.nii' would lie in that of 'n/A.nii'");
  expect(readdirSync(study.cli.directory)).not.toContain('Out');
});
