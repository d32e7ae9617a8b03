import { appendFileSync, existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { filesBelow } from '../../src/files/index.js';
import { plant } from '../support/temporary.js';
import { Study } from './study.js';

const derivatives = 'bids/derivatives/remote-app-masker';
const words = ['infer', '--each', 'bids', '-o', derivatives, '--layout', 'bids'];

/** A longitudinal tree. */
async function longitudinal(more: Readonly<Record<string, string>> = {}): Promise<Study> {
  const study = await Study.create([]);
  await plant(study.at('bids'), {
    'dataset_description.json': '{"Name": "study", "BIDSVersion": "1.10.0"}',
    'sub-01/ses-1/anat/sub-01_ses-1_T1w.nii': 'one',
    'sub-01/ses-2/anat/sub-01_ses-2_T1w.nii': 'two',
    'sub-02/anat/sub-02_acq-fast_T1w.nii': 'three',
    ...more,
  });
  return study;
}

const run = (study: Study, ...more: readonly string[]) => study.cli.run([...words, ...more], study.env);
const at = (study: Study, ...parts: readonly string[]) => study.at(derivatives, ...parts);
const tableOf = (study: Study): string[][] =>
  readFileSync(at(study, 'cases.csv'), 'utf8')
    .trimEnd()
    .split('\r\n')
    .map((row) => row.split(','));

/** The files of the data set, without what is ours alone. */
const filesOf = (study: Study): string[] =>
  filesBelow(at(study))
    .map((entry) => path.relative(at(study), path.join(entry.parentPath, entry.name)))
    .filter((name) => !name.startsWith('.remote-app'))
    .sort();

const first = 'sub-01/ses-1/anat/sub-01_ses-1_desc-maskerT1w';

test('Scans that differ only in desc- keep it in the names of their results', async () => {
  const scan = (desc: string) => `sub-03/anat/sub-03_desc-${desc}_T1w.nii`;
  await using study = await longitudinal({ [scan('preproc')]: 'four', [scan('denoised')]: 'five' });
  const { code, stderr } = await run(study);
  expect(code, stderr).toBe(0);
  const mask = (word: string) => readFileSync(at(study, `sub-03/anat/sub-03_desc-${word}_mask.nii`), 'utf8');
  expect(mask('preprocMaskerT1w')).toBe('mask of four');
  expect(mask('denoisedMaskerT1w')).toBe('mask of five');
});

test('Results are BIDS derivatives, and the same command recognises them as done', async () => {
  await using study = await longitudinal();
  const { code, stderr } = await run(study);
  expect(code, stderr).toBe(0);
  const four = (start: string) =>
    ['log.txt', 'mask.nii', 'measurements.json', 'record.json'].map((end) => `${start}_${end}`);
  expect(filesOf(study)).toEqual([
    'cases.csv',
    'dataset_description.json',
    ...four(first),
    ...four('sub-01/ses-2/anat/sub-01_ses-2_desc-maskerT1w'),
    ...four('sub-02/anat/sub-02_acq-fast_desc-maskerT1w'),
  ]);
  expect(readFileSync(at(study, `${first}_mask.nii`), 'utf8')).toBe('mask of one');
  expect(JSON.parse(readFileSync(at(study, 'dataset_description.json'), 'utf8'))).toMatchObject({
    BIDSVersion: expect.any(String),
    DatasetType: 'derivative',
    GeneratedBy: [{ Name: 'masker', Version: expect.stringMatching(/^sha256:/) }, { Name: 'remote-app' }],
  });
  expect(JSON.parse(readFileSync(at(study, `${first}_record.json`), 'utf8'))).toMatchObject({
    case: 'sub-01_ses-1_T1w',
    outputs: [
      { name: 'sub-01_ses-1_desc-maskerT1w_mask.nii' },
      { name: 'sub-01_ses-1_desc-maskerT1w_measurements.json' },
    ],
    log: 'sub-01_ses-1_desc-maskerT1w_log.txt',
    numbers: { letters: 3 },
  });
  expect(tableOf(study).map((row) => [row[0], row[1], ...row.slice(6)])).toEqual([
    ['case', 'status', 'subject', 'session', 'letters'],
    ['sub-01_ses-1_T1w', 'done', '01', '1', '3'],
    ['sub-01_ses-2_T1w', 'done', '01', '2', '3'],
    ['sub-02_acq-fast_T1w', 'done', '02', '', '5'],
  ]);
  expect((await run(study)).stderr).toContain('3 cases: 3 done (3 of them before)\n');
  await rm(at(study, '.remote-app'), { recursive: true });
  expect((await run(study)).stderr).toContain('3 cases: 3 done (3 of them before)\n');
  expect(study.computed).toEqual(['one', 'three', 'two']);
});

test('A sequence that arrives later gets a name of its own, and a command for a subset keeps the other rows', async () => {
  await using study = await longitudinal();
  await run(study);
  await plant(study.at('bids/sub-01'), {
    'ses-1/anat/sub-01_ses-1_T2w.nii': 'four',
    'ses-3/anat/sub-01_ses-3_T1w.nii': 'bad',
  });
  expect((await run(study, '--participant-label', '01')).stderr).toContain(
    '4 cases: 3 done (2 of them before), 1 failed\n',
  );
  expect(readFileSync(at(study, `${first}_mask.nii`), 'utf8')).toBe('mask of one');
  expect(readFileSync(at(study, `${first.replace('T1w', 'T2w')}_mask.nii`), 'utf8')).toBe('mask of four');
  expect(
    tableOf(study)
      .map(([name, status]) => [name, status])
      .slice(1)
      .toSorted(),
  ).toEqual([
    ['sub-01_ses-1_T1w', 'done'],
    ['sub-01_ses-1_T2w', 'done'],
    ['sub-01_ses-2_T1w', 'done'],
    ['sub-01_ses-3_T1w', 'failed'],
    ['sub-02_acq-fast_T1w', 'done'],
  ]);
  expect((await run(study, '--suffix', 'T2w')).stderr).toContain('1 case: 1 done (1 of them before)\n');
});

test('A corrected mask keeps its name, and stays next to the result of a rescan', async () => {
  await using study = await longitudinal();
  await run(study);
  appendFileSync(at(study, `${first}_mask.nii`), ', corrected');
  expect((await run(study)).stderr).toContain('3 cases: 3 done (3 of them before)\n');
  expect(tableOf(study)[1]?.[2]).toBe("Edited by a person: 'sub-01_ses-1_desc-maskerT1w_mask.nii'");
  writeFileSync(study.at('bids/sub-01/ses-1/anat/sub-01_ses-1_T1w.nii'), 'rescan');
  const { code, stderr } = await run(study);
  expect(code, stderr).toBe(0);
  const read = (end: string) => readFileSync(at(study, `${first}_${end}`), 'utf8');
  expect([read('mask.nii'), read('mask_edited.nii')]).toEqual(['mask of rescan', 'mask of one, corrected']);
});

test('A command that is killed while it replaces a result leaves the earlier result', async () => {
  await using study = await longitudinal();
  await run(study);
  const before = filesOf(study);
  const folder = path.dirname(first);
  // Half of the old files are away; then half of the new ones are in place.
  for (const half of [
    ['log.txt', 'mask.nii'],
    ['log.txt', 'mask.nii', 'measurements.json', 'record.json'],
  ]) {
    const place = {
      directory: folder,
      prefix: `${path.basename(first)}_`,
      record: `${path.basename(first)}_record.json`,
    };
    await plant(at(study), { '.remote-app/old-a/place.json': JSON.stringify(place) });
    for (const end of half) {
      const name = `${first}_${end}`;
      await plant(at(study), {
        [`.remote-app/old-a/files/${path.basename(name)}`]: readFileSync(at(study, name)),
      });
      await rm(at(study, name));
    }
    if (half.includes('record.json')) writeFileSync(at(study, `${first}_mask.nii`), 'new');
    expect((await run(study)).stderr).toContain('3 cases: 3 done (3 of them before)\n');
    expect(filesOf(study)).toEqual(before);
    expect(readFileSync(at(study, `${first}_mask.nii`), 'utf8')).toBe('mask of one');
    expect(readdirSync(at(study, folder))).toHaveLength(4);
    expect(existsSync(at(study, '.remote-app/old-a'))).toBe(false);
  }
});

test('A command that is killed while it removes a replaced result leaves the new result', async () => {
  await using study = await longitudinal();
  await run(study);
  const before = filesOf(study);
  const place = {
    ...{ directory: path.dirname(first), prefix: `${path.basename(first)}_` },
    record: `${path.basename(first)}_record.json`,
  };
  // Its record was removed first.
  await plant(at(study), {
    [`.remote-app/old-a/files/${path.basename(first)}_mask.nii`]: 'mask of an earlier scan',
    '.remote-app/old-a/place.json': JSON.stringify(place),
  });
  expect((await run(study)).stderr).toContain('3 cases: 3 done (3 of them before)\n');
  expect(readFileSync(at(study, `${first}_mask.nii`), 'utf8')).toBe('mask of one');
  expect([filesOf(study), existsSync(at(study, '.remote-app/old-a'))]).toEqual([before, false]);
});

test.each([
  [
    'a path without a subject',
    ['other/scan.nii'],
    "needs a subject, as in 'sub-01', in each path; there is none in 'other/scan.nii'",
  ],
  ['the data set of the scans', ['bids', '-o', 'bids'], 'is that of another data set: name a directory'],
  ['a directory of cases', ['bids', '-o', 'Out'], 'has a directory for each case'],
  ['a linked subject', ['bids', '-o', 'Linked'], 'is a link, and results are not written through links'],
])('%s is refused', async (_, paths, why) => {
  await using study = await longitudinal();
  await plant(study.cli.directory, { 'other/scan.nii': 'x', 'elsewhere/': '', 'Linked/': '' });
  symlinkSync(study.at('elsewhere'), study.at('Linked/sub-01'));
  await study.run('--participant-label', '02');
  const sent = study.server.jobDirectories().length;
  const { stderr } = await study.cli.run(['infer', '--each', ...paths, '--layout', 'bids'], study.env);
  expect(stderr).toContain(why);
  if (!paths.includes('Linked')) expect(study.server.jobDirectories()).toHaveLength(sent);
  expect(readdirSync(study.at('elsewhere'))).toEqual([]);
});

test('A command without --layout for derivatives is refused', async () => {
  await using study = await longitudinal();
  await run(study);
  const { code, stderr } = await study.cli.run(words.slice(0, -2), study.env);
  expect(code, stderr).toBe(2);
  expect(stderr).toContain('has results in the layout of BIDS: give --layout bids');
});
