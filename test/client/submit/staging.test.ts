import { existsSync, readdirSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { extractArchive } from '../../../src/archive/extract.js';
import { UsageError } from '../../../src/client/errors.js';
import { findFiles } from '../../../src/client/inputs/index.js';
import type { Submission } from '../../../src/client/submission.js';
import { unknownTerms } from '../../../src/client/submit/preflight.js';
import { stage as stageFound } from '../../../src/client/submit/staging.js';
import { operationOf } from '../../../src/contract/operations.js';
import { dicom, plant, temporary } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';
import { zipOf } from '../../support/zip.mjs';
import { memoryReporter } from '../support/connect.js';
import { stage } from '../support/stage.js';

const bounds = { maxBytes: 1e6, maxEntries: 100 };

function submission(name: 'evaluate' | 'fine_tune', more: Partial<Submission>): Submission {
  return {
    operation: operationOf(name),
    app: 'tissue',
    fields: {},
    options: {},
    files: [],
    archive: null,
    ...more,
  };
}

const fieldOf = (name: 'evaluate' | 'fine_tune', field: string) => {
  const found = operationOf(name).fields.find((each) => each.name === field);
  if (!found) throw new Error(`no field ${field}`);
  return found;
};

describe('staging', () => {
  test('counts the volumes of each group', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'a/1.nii': 'x', 'a/2.nii': 'x', 'b/1.nii': 'x', 'gt.nii': 'x' });
    const at = (name: string) => path.join(directory.path, name);
    const staged = await stage(
      submission('evaluate', {
        files: [
          { field: fieldOf('evaluate', 'inputs'), groups: [[at('a')], [at('b')]] },
          { field: fieldOf('evaluate', 'gt'), groups: [[at('gt.nii')]] },
        ],
      }),
      memoryReporter(),
      undefined,
    );
    expect(staged.fields).toEqual({ inputs_groups: '2,1', gt_groups: '1' });
    expect(staged.parts.map(({ field, filename }) => `${field} ${filename}`)).toEqual([
      'inputs 1.nii',
      'inputs 2.nii',
      'inputs 1.nii',
      'gt gt.nii',
    ]);
    await staged.remove();
  });

  test('packs a series without, and a store with, its hidden files, and removes the archives', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'in/ct/1.dcm': dicom,
      'in/ct/.DS_Store': '',
      ...zarrStore('in/mr.zarr'),
    });
    const files = [{ field: fieldOf('evaluate', 'inputs'), groups: [[path.join(directory.path, 'in')]] }];
    const staged = await stage(submission('evaluate', { files }), memoryReporter(), undefined);
    expect(staged.fields).toEqual({ inputs_groups: '2' });
    expect(staged.parts.map(({ filename }) => filename)).toEqual([
      'ct.konfaidir.zip',
      'mr.zarr.konfaidir.zip',
    ]);
    const contents: string[][] = [];
    for (const [index, part] of staged.parts.entries()) {
      const out = path.join(directory.path, `out${index}`);
      await extractArchive(part.path, out, bounds);
      contents.push((await readdir(out, { recursive: true })).sort());
    }
    expect(contents).toEqual([
      ['1.dcm'],
      ['.zgroup', '0', ...['.zarray', '0'].map((name) => path.join('0', name))],
    ]);
    await staged.remove();
    expect(staged.parts.some((part) => existsSync(part.path))).toBe(false);
  });

  test.each([['ct/1.dcm'], ['mr.zarr/0/0']])(
    'refuses a name that is not UTF-8 beside %s, since it would be sent under another name',
    async (name) => {
      await using directory = await temporary();
      await plant(directory.path, { ...zarrStore('mr.zarr'), [name]: dicom });
      const [unit = ''] = name.split('/');
      const parent = path.join(directory.path, path.dirname(name));
      await writeFile(Buffer.from(`${parent}/\xe9`, 'latin1'), '');
      const files = [{ field: fieldOf('evaluate', 'inputs'), groups: [[path.join(directory.path, unit)]] }];
      const staged = stage(submission('evaluate', { files }), memoryReporter(), undefined);
      await expect(staged).rejects.toThrow(UsageError);
      await expect(staged).rejects.toThrow(`'${parent}/\ufffd' has a name that is not UTF-8; rename it`);
    },
  );

  test('makes a form of a series that the server takes only deflated', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct/1.dcm': Buffer.concat([dicom, Buffer.alloc(2 << 20)]) });
    const files = [{ field: fieldOf('evaluate', 'inputs'), groups: [[path.join(directory.path, 'ct')]] }];
    const given = submission('evaluate', { files });
    const stageWith = async (most: number) => {
      const checkSizes = (sized: readonly { size: number }[]) => {
        if (sized.some(({ size }) => size > most)) throw new UsageError('It is too large');
      };
      const terms = { ...unknownTerms, takesUploads: true, checkSizes };
      const found = await findFiles(given);
      const staged = await stageFound(given, found, terms, null, memoryReporter(), undefined);
      await staged.remove();
      return [staged.parts.length, staged.uploads?.length ?? null];
    };
    expect(await stageWith(3 << 20)).toEqual([0, 1]);
    expect(await stageWith(1 << 20)).toEqual([1, null]);
  });

  test('leaves no archive behind that is too large for the server', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct/1.dcm': dicom, 'tmp/': '' });
    vi.stubEnv('TMPDIR', path.join(directory.path, 'tmp'));
    onTestFinished(() => void vi.unstubAllEnvs());
    const files = [{ field: fieldOf('evaluate', 'inputs'), groups: [[path.join(directory.path, 'ct')]] }];
    const given = submission('evaluate', { files });
    const packed: string[][] = [];
    const checkSizes = () => {
      packed.push(readdirSync(path.join(directory.path, 'tmp')));
      if (packed.length > 1) throw new UsageError('It is too large');
    };
    const terms = { ...unknownTerms, checkSizes };
    const staged = stageFound(given, await findFiles(given), terms, null, memoryReporter(), undefined);
    await expect(staged).rejects.toThrow('It is too large');
    expect(packed).toEqual([[], [expect.any(String)]]);
    expect(await readdir(path.join(directory.path, 'tmp'))).toEqual([]);
  });

  test('packs a data set, and sends a zip as it is', async () => {
    const zip = zipOf({ 'case/ct.nii': 'x' });
    await using directory = await temporary();
    await plant(directory.path, { 'set/case/ct.nii': 'x', 'set/.cache': '', 'set.zip': zip });
    const field = fieldOf('fine_tune', 'dataset');
    const at = (name: string) => ({ archive: { field, path: path.join(directory.path, name) } });
    const packed = await stage(submission('fine_tune', at('set')), memoryReporter(), undefined);
    expect(packed.parts[0]).toMatchObject({ field: 'dataset', filename: 'set.zip' });
    await extractArchive(packed.parts[0]?.path ?? '', path.join(directory.path, 'out'), bounds);
    expect(await readdir(path.join(directory.path, 'out'))).toEqual(['case']);
    await packed.remove();
    const sent = await stage(submission('fine_tune', at('set.zip')), memoryReporter(), undefined);
    expect(sent.parts[0]).toMatchObject({ path: path.join(directory.path, 'set.zip'), size: zip.length });
    await sent.remove();
    expect(existsSync(path.join(directory.path, 'set.zip'))).toBe(true);
  });

  test('refuses a data set that is neither a directory nor a zip, and one that does not exist', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'set.tar': '' });
    const field = fieldOf('fine_tune', 'dataset');
    for (const name of ['set.tar', 'nothing']) {
      const archive = { field, path: path.join(directory.path, name) };
      await expect(stage(submission('fine_tune', { archive }), memoryReporter(), undefined)).rejects.toThrow(
        name,
      );
    }
  });
});
