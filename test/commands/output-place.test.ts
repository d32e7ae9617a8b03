import { readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { formOf } from '../support/scripted-server.js';
import { dicom, plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });

/** A working directory with `ct.nii`, and a service with this result. */
async function world(fake: Fake = {}) {
  const cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'volume' });
  const server = await fakeService({ lines: ['epoch 1'], result, ...fake });
  const at = (...names: string[]) => path.join(cli.directory, ...names);
  return {
    server,
    at,
    run: (...args: string[]) => cli.run(args, { REMOTE_APP_SERVER: server.url }),
    names: async (directory = '.') => (await readdir(at(directory))).sort(),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await cli[Symbol.asyncDispose]();
    },
  };
}

/** The smallest header of a NIfTI file: a link to it is followed, as to any volume. */
const nifti = Buffer.alloc(352);
nifti.writeInt32LE(348, 0);
nifti.write('n+1\0', 344, 'latin1');

describe('where results go', () => {
  test('Each run of a command saves into its own directory, and nothing is replaced', async () => {
    await using here = await world();
    expect((await here.run('infer', 'ct.nii')).code).toBe(0);
    await writeFile(here.at('Output', 'mask.nii'), 'corrected by hand');
    const second = await here.run('infer', 'ct.nii');
    expect([second.code, second.stdout]).toEqual([0, 'epoch 1\n']);
    expect(second.stderr).toContain(
      `Saved 1 file in ${here.at('Output-2')}, because './Output' has other files\n`,
    );
    const third = await here.run('infer', 'ct.nii', '--json');
    expect(JSON.parse(third.stdout)).toMatchObject({
      output: here.at('Output-3'),
      archive: here.at('Output-3', 'result.zip'),
    });
    expect(await readFile(here.at('Output', 'mask.nii'), 'utf8')).toBe('corrected by hand');
    expect(await here.names('Output-3')).toEqual(['mask.nii', 'remote-app-record.json', 'result.zip']);
  });

  test('A named directory that has files is refused before anything is sent', async () => {
    await using here = await world();
    await plant(here.at(), { 'Seg/mask.nii': 'mine', 'Seg/notes.txt': 'mine' });
    for (const args of [
      ['infer', 'ct.nii'],
      ['result', jobId],
    ]) {
      const { code, stderr } = await here.run(...args, '-o', 'Seg');
      expect([code, stderr]).toEqual([2, expect.stringMatching(/^Error: 'Seg' has files .*--force.*\n$/)]);
    }
    expect(here.server.received).toEqual([]);
    expect((await here.run('infer', 'ct.nii', '-o', 'Seg', '--force')).code).toBe(0);
    expect(await here.names('Seg')).toEqual([
      'mask.nii',
      'notes.txt',
      'remote-app-record.json',
      'result.zip',
    ]);
    expect(await readFile(here.at('Seg', 'mask.nii'), 'utf8')).toBe('mask');
  });

  test('A result never replaces an input: --force is refused if the output directory has one', async () => {
    await using here = await world();
    await plant(here.at(), {
      'scans/ct.nii': nifti,
      'scans/s/1.dcm': dicom,
      'data/case/ct.nii': 'mine',
      'links/': '',
    });
    await symlink('../scans/ct.nii', here.at('links', 'a.nii'));
    await symlink('scans', here.at('again'));
    await symlink('ct.nii', here.at('scans', 'other.nii'));
    for (const [input, output, file = input] of [
      ['scans', 'scans', 'scans/ct.nii'],
      ['scans/ct.nii', 'scans'],
      ['again/ct.nii', 'scans'],
      ['scans/ct.nii', 'again'],
      ['links/a.nii', 'scans'],
      ['scans/other.nii', 'scans'],
      ['scans/s', 'scans', 'scans/s/1.dcm'],
      ['ct.nii', '.'],
    ] as const) {
      const { code, stderr } = await here.run('infer', input, '-o', output, '--force');
      const sentence =
        `Error: '${file}' is in the directory that results go to, where one of them could replace it; ` +
        'name another directory with --output';
      expect([code, stderr.slice(0, sentence.length)]).toEqual([2, sentence]);
    }
    const tuning = await here.run('fine-tune', 'data', '-o', 'data', '--force');
    expect([tuning.code, tuning.stderr]).toEqual([
      2,
      expect.stringContaining("'data/case/ct.nii' is in the"),
    ]);
    expect(here.server.to('/apps/')).toEqual([]);
    expect(await readFile(here.at('scans', 'ct.nii'))).toEqual(nifti);
    // A directory of results beside the inputs is no input.
    await plant(here.at(), { 'scans/Seg/mask.nii': 'old' });
    expect((await here.run('infer', 'scans', '-o', 'scans/Seg', '--force')).code).toBe(0);
    expect(await readFile(here.at('scans', 'Seg', 'mask.nii'), 'utf8')).toBe('mask');
  });

  test('The results of earlier runs are not sent with the directory that contains them', async () => {
    await using here = await world();
    await here.run('infer', 'ct.nii');
    await here.run('infer', 'ct.nii');
    // Not a result, despite its name.
    await plant(here.at(), { 'Output-4/patient.nii': 'volume' });
    here.server.received.length = 0;
    expect((await here.run('infer', '.')).code).toBe(0);
    const [submission] = here.server.to('/apps/');
    if (!submission) throw new Error('nothing was submitted');
    const sent = (await formOf(submission)).getAll('inputs').map((each) => (each as File).name);
    expect(sent).toEqual(['patient.nii', 'ct.nii']);
    expect(await here.names('Output-3')).toEqual(['mask.nii', 'remote-app-record.json', 'result.zip']);
  });

  test('No directory is made for an unknown job or for one without a result', async () => {
    await using here = await world({ status: 'error', error: 'sad' });
    expect((await here.run('result', 'ffffffffffff', '-o', 'deep/new')).code).toBe(2);
    expect((await here.run('result', jobId, '-o', 'deep/new')).code).toBe(1);
    expect(await here.names()).toEqual(['ct.nii']);
  });
});

describe('-o -', () => {
  test('-o - writes the zip of a submission to stdout and the log to stderr', async () => {
    await using here = await world();
    const { code, bytes, stderr } = await here.run('infer', 'ct.nii', '-o', '-');
    expect([code, bytes.equals(result)]).toEqual([0, true]);
    expect(stderr).toContain('epoch 1\n');
    expect(await here.names()).toEqual(['ct.nii']);
  });

  test('-o - with --json is refused before anything is sent', async () => {
    await using here = await world();
    const { code, stdout } = await here.run('infer', 'ct.nii', '-o', '-', '--json');
    expect([code, JSON.parse(stdout).error.message]).toEqual([2, expect.stringContaining('stdout')]);
    expect(here.server.received).toEqual([]);
  });
});
