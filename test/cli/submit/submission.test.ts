import os from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { plant, temporary } from '../../support/temporary.js';
import { parse, request } from '../support/parse.js';

describe('a command line', () => {
  test("A command line never takes the path after a flag's value as another value", async () => {
    const sent = await request('infer', '--gpu', '0', './scans');
    expect(sent.fields).toEqual({ gpu: '0' });
    expect(sent.files.map(({ groups }) => groups)).toEqual([[['./scans']]]);
    const words = ['./scans', '--set', 'x=1', 'more.nii', '--quiet', 'last.nii', '-i', 'a.nii'];
    const groups = await request('infer', ...words);
    expect(groups.files[0]?.groups).toEqual([['./scans', 'more.nii', 'last.nii'], ['a.nii']]);
  });

  test("A command line expands '~/' if no shell has done so", async () => {
    const sent = await request('infer', '~/scans', '--inputs=~/a.nii,~/b.nii');
    const home = os.homedir();
    expect(sent.files.map(({ groups }) => groups)).toEqual([
      [[`${home}/scans`], [`${home}/a.nii`, `${home}/b.nii`]],
    ]);
    expect((await request('fine_tune', '--dataset=~/set')).archive?.path).toBe(`${home}/set`);
  });

  test('A command line sends only what was given, since the server has the defaults', async () => {
    const sent = await request('pipeline', 'a.nii', '--gt', 'b.nii');
    expect(sent.fields).toEqual({});
    expect(sent.options).toEqual({});
    expect(sent.files.map(({ field }) => field.name)).toEqual(['inputs', 'gt']);
  });

  test('All positional paths form one group, and each flag forms another one', async () => {
    const sent = await request(
      'evaluate',
      'a',
      'b',
      '-i',
      'c,d',
      '--inputs',
      'e',
      '--gt',
      'f',
      '--gt',
      'g,h',
      '--mask',
      'm',
    );
    expect(sent.files.map(({ field, groups }) => [field.name, groups])).toEqual([
      ['inputs', [['a', 'b'], ['c', 'd'], ['e']]],
      ['gt', [['f'], ['g', 'h']]],
      ['mask', [['m']]],
    ]);
  });

  test('A command line asks for the CPU with --cpu', async () => {
    expect((await request('infer', 'a', '--cpu', '4')).fields).toEqual({ cpu: '4' });
  });

  test.for([
    ['--cpu', ['--gpu', '0', '--cpu', '4']],
    ['--ensemble', ['--ensemble', '2', '--ensemble-models', 'CV_0']],
  ] as const)('A command line that sets %s twice, in two ways, is refused', async ([flag, words]) => {
    for (const name of ['infer', 'pipeline'] as const) {
      await expect(request(name, 'a', ...words)).rejects.toThrow(`when using ${flag}`);
    }
  });

  test('A command line collects the values of a repeated flag', async () => {
    const sent = await request('infer', 'a', '--set', 'x=1,2', '--set', 'y=3');
    expect(sent.options).toEqual({ config_overrides: ['x=1,2', 'y=3'] });
  });

  test('A command line sends 0 if it is a meaningful value', async () => {
    const sizes = ['--patch-size', '1,0,0', '--batch-size', '0', '--max-voxels', '9000'];
    expect((await request('infer', 'a', ...sizes)).options).toEqual({
      patch_size: [1, 0, 0],
      batch_size: 0,
      max_voxels: 9000,
    });
    expect((await request('fine_tune', './set', '--batch-size', '0')).options).toEqual({ batch_size: 0 });
  });

  test('A command line treats an empty value as a missing one', async () => {
    expect((await request('infer', 'a', '--gpu', '', '--tta', '')).fields).toEqual({});
  });

  test('A command line takes the data set as an argument or by a flag, but only once', async () => {
    expect((await request('fine_tune', './set')).archive?.path).toBe('./set');
    expect((await request('fine_tune', '-d', 'set.zip')).archive?.path).toBe('set.zip');
    await expect(request('fine_tune', './set', '-d', 'set.zip')).rejects.toThrow(/One data set/);
    await expect(request('fine_tune')).rejects.toThrow(/--dataset/);
  });

  test.each([
    ['--tta', '-1', /^--tta must be at least 0, got -1/],
    ['--tta', 'many', /^--tta must be an integer/],
    ['--patch-size', '96,-1', /^--patch-size/],
    ['--batch_size', '1.5', /^--batch-size/],
    ['--set', 'novalue', /^--set must be NAME=VALUE/],
    ['--gpu', 'zero', /^--gpu/],
    ['--prediction-file', '../secret', /^--prediction-file/],
    ['--ensemble-models', 'a,-b', /^--ensemble-models/],
  ])('A command line with %s %s is refused at once, naming the flag', async (flag, value, message) => {
    await expect(request('infer', 'a', flag, value)).rejects.toThrow(message);
    await expect(request('infer', 'a', flag, value)).rejects.toMatchObject({ exitCode: 2 });
  });

  test.each([
    ['infer', '--inputs'],
    ['evaluate', '--inputs'],
    ['uncertainty', '--inputs'],
  ] as const)('A command line of %s without volumes says how to name them', async (name, flag) => {
    await expect(request(name, '--cpu', '1')).rejects.toThrow(flag);
  });

  test('An evaluation without ground truth is refused with that reason', async () => {
    await expect(request('evaluate', 'a')).rejects.toThrow(/--gt/);
  });

  test.each([['--tta', '1', '--tta', '2'], ['--nope'], ['--gpu']])(
    'A command line that oclif rejects is refused: %s %s %s %s',
    async (...argv) => {
      await expect(parse('infer', argv)).rejects.toThrow();
    },
  );
});

describe('a value with a comma', () => {
  let directory: Awaited<ReturnType<typeof temporary>>;
  const back = process.cwd();
  beforeAll(async () => {
    directory = await temporary();
    await plant(directory.path, { 'a,b.nii': '', 'Doe, J (2)/1.nii': '', 'Doe, J (2)/2,3.nii': '' });
    process.chdir(directory.path);
  });
  afterAll(async () => {
    process.chdir(back);
    await directory[Symbol.asyncDispose]();
  });

  test('A value with a comma is one path if a file has that name', async () => {
    const sent = await request('infer', '-i', 'a,b.nii', '-i', 'c,d.nii');
    expect(sent.files[0]?.groups).toEqual([['a,b.nii'], ['c', 'd.nii']]);
  });

  test.each([
    ['Doe, J (2)/*.nii', ['Doe, J (2)/*.nii']],
    ['Doe, J (2)/*.nii,c.nii', ['Doe, J (2)/*.nii', 'c.nii']],
    ['c.nii, Doe, J (2)/1.nii,Doe, J (2)/[12]*.nii', ['c.nii', 'Doe, J (2)/1.nii', 'Doe, J (2)/[12]*.nii']],
    ['Doe, J (2)/2,3.nii,a,b.nii', ['Doe, J (2)/2,3.nii', 'a,b.nii']],
    ['scans/{a,b}.nii,c.nii', ['scans/{a,b}.nii', 'c.nii']],
  ])('A value with a comma is not split inside existing names or braces: %s', async (value, paths) => {
    expect((await request('infer', '-i', value)).files[0]?.groups).toEqual([paths]);
  });
});
