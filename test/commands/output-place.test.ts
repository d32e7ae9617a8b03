import { chmodSync, chownSync, lstatSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { lacks } from '../support/needs.mjs';
import { formOf } from '../support/scripted-server.js';
import { apps, sharedServer } from '../support/server.js';
import { dicom, plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });

describe('--output', () => {
  test.each([
    ['infer', ['scans']],
    ['evaluate', ['scans', '--gt', 'scans']],
    ['uncertainty', ['scans']],
    ['pipeline', ['scans', '--gt', 'scans']],
    ['fine-tune', ['scans']],
    ['result', [jobId]],
  ])('An unwritable output directory is refused by %s before the server is asked', async (command, args) => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'scans/ct.nii': 'volume', file: '' });
    await using server = await fakeService({ result });
    for (const output of process.platform === 'linux' ? ['file', '/proc/x/y'] : ['file']) {
      const { code, stdout, stderr } = await cli.run([
        command,
        ...args,
        '--output',
        output,
        '--server',
        server.url,
      ]);
      expect([code, stdout]).toEqual([2, '']);
      const full = path.resolve(cli.directory, output);
      expect(stderr).toMatch(/^Error: Results cannot be saved in '[^\n]*; choose another directory.*\n$/);
      expect(stderr).toContain(`'${full}'`);
    }
    expect(server.received).toEqual([]);
  });

  test.skipIf(process.platform !== 'linux')('The default output directory must be writable', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ result });
    const { code, stderr } = await cli.from('/proc').run(['result', jobId, '--server', server.url]);
    expect(code, stderr).toBe(2);
    expect(stderr).toMatch(
      /^Error: Results cannot be saved in '\/proc\/Output': it cannot be created in '\/proc'/,
    );
    expect(server.received).toEqual([]);
  });

  test('An empty --output, as from an unset variable, is refused', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'scans/ct.nii': 'volume' });
    await using server = await fakeService({ result });
    for (const words of [
      ['result', jobId],
      ['infer', 'scans'],
      ['infer', '--each', 'scans'],
    ]) {
      const { code, stderr } = await cli.run([...words, '--output=', '--server', server.url]);
      expect([code, stderr]).toEqual([2, 'Error: --output is empty; name a directory\n']);
    }
    expect(server.received).toEqual([]);
  });

  test('--output is not used for a detached job', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'scans/ct.nii': 'volume', Output: 'a file' });
    await using server = await fakeService({});
    const { code, stdout } = await cli.run(['infer', 'scans', '--detach', '--server', server.url]);
    expect([code, stdout]).toEqual([0, `${jobId}\n`]);
  });
});

test.skipIf(process.platform !== 'linux')('A kernel directory does not block a command', async () => {
  await using cli = await Cli.create();
  const refused = await cli.refusedStart(['serve', '--data-dir', '/proc/x/y', '--apps', apps.probe]);
  expect(refused).toContain('/proc/x/y');
  await using server = await fakeService({});
  const env = { XDG_CONFIG_HOME: '/proc/x/y' };
  const login = await cli.run(['login', '--server', server.url], env);
  expect([login.code, login.stderr]).toEqual([1, expect.stringContaining('/proc/x/y')]);
});

const group = 4321;

/** Group and mode of everything below a directory, by name; of one entry for each kind if they are as these. */
function unlike(directory: string, file: number, folder: number): string[] {
  return readdirSync(directory, { recursive: true }).flatMap((each) => {
    const stats = lstatSync(path.join(directory, String(each)));
    const [wanted, mode] = [stats.isDirectory() ? folder : file, stats.mode & 0o7777];
    return stats.gid === group && mode === wanted ? [] : [`${each}: ${stats.gid} ${mode.toString(8)}`];
  });
}

const server = sharedServer();

test.skipIf(lacks('root'))('Results in a directory that a lab shares belong to its group', async () => {
  const before = process.umask(0o002);
  onTestFinished(() => void process.umask(before));
  await using cli = await Cli.create();
  const lab = path.join(cli.directory, 'lab');
  mkdirSync(lab);
  chownSync(lab, -1, group);
  chmodSync(lab, 0o2775);
  writeFileSync(path.join(cli.directory, 'a.nii'), 'a');
  const env = { REMOTE_APP_SERVER: server.url };
  const sent = ['infer', 'a.nii', '--set', 'print=computed', '--output'];
  for (const words of [
    [...sent, 'lab/One'],
    ['infer', '--each', 'a.nii', '--set', 'print=computed', '--output', 'lab/Cases'],
    // A case that fails stays in the list of known jobs.
    ['infer', '--each', 'a.nii', '--set', 'exit=1', '--output', 'lab/Failed'],
  ])
    await cli.run(words, env);

  expect(readdirSync(path.join(lab, 'Cases'))).toEqual(expect.arrayContaining(['cases.csv', 'a']));
  expect(readdirSync(path.join(lab, 'Failed', '.remote-app'))).toContain('jobs.jsonl');
  expect(unlike(lab, 0o664, 0o2775)).toEqual([]);

  // The profile and other private files of the user stay private.
  const own = path.join(cli.home, 'remote-app');
  const open = readdirSync(own, { recursive: true }).filter(
    (each) => statSync(path.join(own, String(each))).mode & 0o077,
  );
  expect(open).toEqual([]);
});

test.skipIf(lacks('root'))('A umask that excludes the group is respected', async () => {
  const before = process.umask(0o077);
  onTestFinished(() => void process.umask(before));
  await using cli = await Cli.create();
  writeFileSync(path.join(cli.directory, 'a.nii'), 'a');
  const lab = path.join(cli.directory, 'lab');
  mkdirSync(lab);
  chownSync(lab, -1, group);
  chmodSync(lab, 0o2775);
  const ended = await cli.run(['infer', '--each', 'a.nii', '--output', 'lab'], {
    REMOTE_APP_SERVER: server.url,
  });
  expect(ended.code, ended.stderr).toBe(0);
  expect(unlike(lab, 0o600, 0o2700)).toEqual([]);
});

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

describe('directories of results', () => {
  test('Each run of a command saves into a directory of its own, and replaces nothing', async () => {
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
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/^Error: 'Seg' already contains files.*--force.*\n$/),
      ]);
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

  test('A result never replaces an input, so --force is refused if the output directory contains one', async () => {
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
    expect(tuning.code, tuning.stderr).toBe(2);
    expect(tuning.stderr).toContain("'data/case/ct.nii' is in the");
    expect(here.server.to('/apps/')).toEqual([]);
    expect(await readFile(here.at('scans', 'ct.nii'))).toEqual(nifti);
    // A results directory beside the inputs is not an input.
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
