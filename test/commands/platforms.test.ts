import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { plant } from '../support/temporary.js';
import { zip } from '../support/zip.mjs';

const hook = fileURLToPath(new URL('../fixtures/programs/imitate-platform.cjs', import.meta.url));

const result = zip(
  ['T1:mask.nii', 'what?.txt', 'a*b', 'aux.json', 'Mask.nii', 'mask.nii', 'd/e/f.txt', 'dot.'].map(
    (name) => ({ name, content: name }),
  ),
);

/** The file that each entry becomes on each system. */
const expected = {
  win32: {
    'Mask.nii': 'Mask.nii',
    'T1_mask.nii': 'T1:mask.nii',
    '_aux.json': 'aux.json',
    a_b: 'a*b',
    'd/e/f.txt': 'd/e/f.txt',
    dot_: 'dot.',
    'mask_1.nii': 'mask.nii',
    'what_.txt': 'what?.txt',
  },
  darwin: {
    'Mask.nii': 'Mask.nii',
    'T1:mask.nii': 'T1:mask.nii',
    'a*b': 'a*b',
    'aux.json': 'aux.json',
    'd/e/f.txt': 'd/e/f.txt',
    'dot.': 'dot.',
    'mask_1.nii': 'mask.nii',
    'what?.txt': 'what?.txt',
  },
} as const;

describe.each(['win32', 'darwin'] as const)('a client on %s (imitated)', (platform) => {
  test('The client logs in, runs a job on a file and a directory, and saves its result', {
    timeout: 120_000,
  }, async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'volume', 'series/1.dcm': 'one', 'series/2.dcm': 'two' });
    await using server = await fakeService({ result, lines: ['working'], token: 'secret' });
    const env = {
      NODE_OPTIONS: `--require=${hook}`,
      IMITATE: platform,
      LOCALAPPDATA: cli.home,
      USERPROFILE: cli.home,
      TEMP: cli.directory,
    };
    const login = await cli.runProcess(['login', '--server', server.url], env, 'secret\r\n');
    expect([login.code, login.stderr]).toEqual([0, '']);
    const { code, stdout, stderr } = await cli.runProcess(['infer', '-i', 'ct.nii', '-i', 'series'], env);
    expect([code, stdout], stderr).toEqual([0, 'working\n']);
    const out = path.join(cli.directory, 'Output');
    const files = readdirSync(out, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !['result.zip', 'remote-app-record.json'].includes(entry.name))
      .map((entry) => path.join(entry.parentPath, entry.name));
    const contents = files.map((file) => [path.relative(out, file), readFileSync(file, 'utf8')]);
    expect(Object.fromEntries(contents)).toEqual(expected[platform]);
    const [form] = server.to('/apps/').map(({ body }) => body.toString('latin1'));
    expect(form).toContain('filename="series.konfaidir.zip"');
  });
});
