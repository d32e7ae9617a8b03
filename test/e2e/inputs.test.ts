import { readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { sharedServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const server = sharedServer({ runners: true });

/** A data set as datalad keeps it: links to contents under the names of their hashes. */
async function annexed(): Promise<Cli> {
  const cli = await Cli.create();
  await plant(cli.directory, {
    'ds/.git/annex/objects/1': 'first',
    'ds/.git/annex/objects/2': 'second',
    'ds/sub-01/anat/': '',
    'ds/sub-02/anat/': '',
    'ds/README': '',
    'ds/participants.tsv': 'sub-01',
  });
  for (const number of [1, 2]) {
    const link = path.join(cli.directory, `ds/sub-0${number}/anat/T1w.nii`);
    await symlink(`../../.git/annex/objects/${number}`, link);
  }
  return cli;
}

/** What the app was given by a flag: names and contents. */
async function given(cli: Cli, output: string, flag: string): Promise<[string, unknown][]> {
  const record = JSON.parse(await readFile(path.join(cli.directory, output, 'probe.json'), 'utf8'));
  return record.files[flag]
    .flat()
    .map(([file, content]: [string, unknown]) => [path.basename(file), content]);
}

const env = () => ({ REMOTE_APP_SERVER: server.url });

test('A data set of links reaches the app as files with distinct names', async () => {
  await using cli = await annexed();
  const { code, stdout, stderr } = await cli.run(['infer', 'ds', '--json', '-o', 'out'], env());
  expect(code, stderr).toBe(0);
  expect(await given(cli, 'out', '--inputs')).toEqual([
    ['sub-01_T1w.nii', 'first'],
    ['sub-02_T1w.nii', 'second'],
  ]);
  expect(stderr).toContain(
    '2 files that are not volumes were not sent (ds/README, ds/participants.tsv); --all-files sends them\n',
  );
  expect(stderr).toContain('ds/sub-01/anat/T1w.nii -> sub-01_T1w.nii\n');
  expect(JSON.parse(stdout)).toMatchObject({
    sent: {
      inputs: [
        [
          { path: 'ds/sub-01/anat/T1w.nii', name: 'sub-01_T1w.nii' },
          { path: 'ds/sub-02/anat/T1w.nii', name: 'sub-02_T1w.nii' },
        ],
      ],
    },
    skipped: ['ds/README', 'ds/participants.tsv'],
  });
});

test('The data set of a fine-tuning reaches the app complete, and --detach --json lists what was sent', async () => {
  await using cli = await annexed();
  const tuned = await cli.run(['fine-tune', 'ds', '-o', 'out'], env());
  expect(tuned.code, tuned.stderr).toBe(0);
  const [[, dataset] = []] = await given(cli, 'out', '--dataset');
  expect(dataset).toEqual({
    README: '',
    'participants.tsv': 'sub-01',
    'sub-01': { anat: { 'T1w.nii': 'first' } },
    'sub-02': { anat: { 'T1w.nii': 'second' } },
  });
  const { stdout } = await cli.run(['fine-tune', 'ds', '--detach', '--json'], env());
  expect(JSON.parse(stdout)).toMatchObject({
    job_id: expect.any(String),
    sent: { dataset: [[{ path: 'ds', name: 'ds.zip' }]] },
    skipped: [],
  });
});

test('Incomplete data and unclear command lines are refused before anything is sent', async () => {
  await using cli = await annexed();
  await symlink('../.git/annex/objects/gone', path.join(cli.directory, 'ds/sub-02/FLAIR.nii'));
  await plant(cli.directory, { 'none/.hidden': 'x' });
  const before = server.jobDirectories();
  for (const [argv, sentence] of [
    [['infer', 'ds'], /^Error: 'ds\/sub-02\/FLAIR.nii' has no content on this machine.*datalad get/],
    [['fine-tune', 'ds'], /^Error: 'ds\/sub-02\/FLAIR.nii' has no content/],
    [['fine-tune', 'none'], /^Error: 'none' contains no file to send/],
    [['infer', '-i', 't1', 'flair'], /^Error: .*write -i before each/],
  ] as const) {
    const { code, stderr } = await cli.run(argv, env());
    expect([code, stderr]).toEqual([2, expect.stringMatching(sentence)]);
  }
  expect(server.jobDirectories()).toEqual(before);
});
