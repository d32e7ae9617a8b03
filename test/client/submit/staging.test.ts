import { existsSync, readdirSync, statSync } from 'node:fs';
import { readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { extractArchive } from '../../../src/archive/extract.js';
import { UsageError } from '../../../src/client/errors.js';
import type { Submission } from '../../../src/client/submission.js';
import { planSending } from '../../../src/client/submit/index.js';
import type { SizedSource } from '../../../src/client/submit/limits.js';
import type { ServerTerms } from '../../../src/client/submit/preflight.js';
import { stage as stageFound } from '../../../src/client/submit/staging.js';
import { operationOf } from '../../../src/contract/operations.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import * as canary from '../../support/canary-volumes.js';
import { dicomSeries } from '../../support/dicom.js';
import { dicom, plant, temporary } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';
import { zipOf } from '../../support/zip.mjs';
import { memoryReporter } from '../support/connect.js';
import { outgoing } from '../support/outgoing.js';
import { stage } from '../support/stage.js';
import { unknownTerms } from '../support/terms.js';

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
  test('Staging counts the volumes of each group', async () => {
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
    await staged[Symbol.asyncDispose]();
  });

  test('Staging packs a series without its hidden files and a store with them, and removes the archives', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'in/ct/1.dcm': dicom, 'in/ct/.DS_Store': '', ...zarrStore('in/mr.zarr') });
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
    await staged[Symbol.asyncDispose]();
    expect(staged.parts.some((part) => existsSync(part.path))).toBe(false);
  });

  test.each([['ct/1.dcm'], ['mr.zarr/0/0']])(
    'Staging refuses a name that is not UTF-8 next to %s, since it would be sent under another name',
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

  test('Staging uses a form for a series that the server accepts only deflated', async () => {
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
      const staged = await stageFound(
        { submission: given, found, terms, outgoing: null },
        memoryReporter(),
        undefined,
      );
      await staged[Symbol.asyncDispose]();
      return [staged.parts.length, staged.uploads?.length ?? null];
    };
    expect(await stageWith(3 << 20)).toEqual([0, 1]);
    expect(await stageWith(1 << 20)).toEqual([1, null]);
  });

  test('Staging leaves no archive behind that exceeds the limit of the server', async () => {
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
    const staged = stageFound(
      { submission: given, found: await findFiles(given), terms, outgoing: null },
      memoryReporter(),
      undefined,
    );
    await expect(staged).rejects.toThrow('It is too large');
    expect(packed).toEqual([[], [expect.any(String)]]);
    expect(await readdir(path.join(directory.path, 'tmp'))).toEqual([]);
  });

  /** Stages inputs for a server with these terms; tells which sizes were checked, one time after the other. */
  async function stageFor(
    root: string,
    groups: readonly (readonly string[])[],
    terms: Partial<ServerTerms> = {},
    {
      fields = {},
      mode,
      allowed,
    }: { fields?: Record<string, string>; mode?: 'full' | 'names'; allowed?: string[] } = {},
  ) {
    const field = fieldOf('evaluate', 'inputs');
    const files = [{ field, groups: groups.map((group) => group.map((each) => path.join(root, each))) }];
    const given = submission('evaluate', { files, fields });
    const found = await findFiles(given);
    const leaving = mode ? (await outgoing(path.join(root, 'config'), mode, allowed))(found) : null;
    const sizes: number[][] = [];
    const all = {
      ...unknownTerms,
      ...terms,
      checkSizes: (sized: readonly SizedSource[]) => {
        sizes.push(sized.map(({ size }) => size));
        terms.checkSizes?.(sized);
      },
    };
    const reporter = memoryReporter();
    const staged = await stageFound(
      { submission: given, found, terms: all, outgoing: leaving },
      reporter,
      undefined,
    );
    return { staged, sizes, notes: reporter.notes };
  }
  const mebibyte = 1 << 20;

  test('Staging uses uploads if at least one file is large enough', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'small.nii': Buffer.alloc(mebibyte),
      'large.nii': Buffer.alloc(mebibyte + 1),
      'ct/2.dcm': dicom,
      'ct/1.dcm': dicom,
    });
    const small = await stageFor(directory.path, [['small.nii'], ['ct']], { takesUploads: true });
    expect([small.staged.uploads, small.staged.parts.length]).toEqual([null, 2]);
    await small.staged[Symbol.asyncDispose]();
    const form = await stageFor(directory.path, [['large.nii'], ['ct']]);
    expect(form.staged.uploads).toBeNull();
    await form.staged[Symbol.asyncDispose]();
    const { staged, sizes } = await stageFor(directory.path, [['large.nii'], ['ct']], { takesUploads: true });
    const at = (name: string) => path.join(directory.path, name);
    expect(staged.uploads).toMatchObject([
      { field: 'inputs', group: 0, filename: 'large.nii', path: at('large.nii'), size: mebibyte + 1 },
      { field: 'inputs', group: 1, filename: 'ct.konfaidir.zip', path: at('ct'), size: 2 * dicom.length },
    ]);
    expect([staged.parts, staged.fields]).toEqual([[], {}]);
    // With what archives take beside their contents, as they are, and as it was made.
    const entries = [mebibyte + 1, 2 * dicom.length + 2048];
    expect(sizes).toEqual([entries, [mebibyte + 1, 2 * dicom.length]]);
    // What is smaller without what identifies a person counts once it is made.
    const neutral = await stageFor(
      directory.path,
      [['large.nii'], ['ct']],
      { takesUploads: true },
      { mode: 'names' },
    );
    expect(neutral.sizes).toEqual([entries, [mebibyte + 1, 0]]);
    await neutral.staged[Symbol.asyncDispose]();
    const part = await staged.uploads?.[1]?.make();
    expect(sizes.slice(2)).toEqual([[mebibyte + 1, part?.size]]);
    expect(existsSync(part?.path ?? '')).toBe(true);
    if (part) await staged.uploads?.[1]?.discard(part);
    expect(existsSync(part?.path ?? '')).toBe(false);
    const scan = await staged.uploads?.[0]?.make();
    if (scan) await staged.uploads?.[0]?.discard(scan);
    expect(existsSync(at('large.nii'))).toBe(true);
    await staged[Symbol.asyncDispose]();
  });

  test('Staging sends the fields of the command before those of the server, and says what is de-identified', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'a.nii': canary.nifti('x') });
    const stageWith = async (terms: Partial<ServerTerms>, mode?: 'full' | 'names') => {
      const fields = { tta: '2' };
      const { staged } = await stageFor(directory.path, [['a.nii']], terms, {
        fields,
        ...(mode && { mode }),
      });
      await staged[Symbol.asyncDispose]();
      return staged.fields;
    };
    const terms = { fields: { keep: '60', tta: '9' } };
    const plain = { tta: '2', keep: '60', inputs_groups: '1' };
    expect(await stageWith({ ...terms, requiresDeidentified: false })).toEqual(plain);
    expect(await stageWith({ ...terms, requiresDeidentified: false }, 'names')).toEqual(plain);
    expect(await stageWith(terms, 'full')).toEqual(plain);
    for (const requiresDeidentified of [false, true])
      expect(await stageWith({ ...terms, requiresDeidentified }, 'full')).toEqual({
        ...plain,
        deidentified: 'true',
      });
  });

  test('An archive has the times of its files, unless they are de-identified', async () => {
    await using directory = await temporary();
    await plant(directory.path, zarrStore('mr.zarr'));
    const archiveOf = async (time: number, mode?: 'names') => {
      await utimes(path.join(directory.path, 'mr.zarr/0/0'), time, time);
      const { staged } = await stageFor(directory.path, [['mr.zarr']], {}, mode && { mode });
      const archive = await readFile(staged.parts[0]?.path ?? '');
      await staged[Symbol.asyncDispose]();
      return archive;
    };
    expect((await archiveOf(1e9, 'names')).equals(await archiveOf(1.5e9, 'names'))).toBe(true);
    expect((await archiveOf(1e9)).equals(await archiveOf(1.5e9))).toBe(false);
  });

  test('Staging checks the kinds and sizes of files before anything is reported or packed', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'in/a.nii': '1', 'in/notes.txt': 'x', 'tmp/': '' });
    const refuse = (what: string) => () => {
      throw new UsageError(what);
    };
    for (const terms of [{ checkKinds: refuse('kinds') }, { checkSizes: refuse('sizes') }])
      await expect(stageFor(directory.path, [['in']], terms)).rejects.toThrow(/kinds|sizes/);
    const { staged, notes, sizes } = await stageFor(directory.path, [['in']]);
    expect([notes.length, sizes]).toEqual([1, [[1]]]);
    await staged[Symbol.asyncDispose]();
  });

  test('Staging refuses a data set that is to be de-identified', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'set/a.nii': 'x' });
    const field = fieldOf('fine_tune', 'dataset');
    const given = submission('fine_tune', { archive: { field, path: path.join(directory.path, 'set') } });
    const found = await findFiles(given);
    const leaving = await outgoing(path.join(directory.path, 'config'));
    expect(() => leaving(found)).toThrow('Data sets for fine-tuning cannot be de-identified');
  });

  test('Staging plans a series as it is sent de-identified, and leaves no files behind', async () => {
    await using directory = await temporary();
    const at = (name: string) => path.join(directory.path, name);
    const slices = dicomSeries(2, { series: '1' }, (image) => `ct/${image}`);
    await plant(directory.path, { ...slices, 'tmp/': '' });
    vi.stubEnv('TMPDIR', at('tmp'));
    onTestFinished(() => void vi.unstubAllEnvs());
    const files = [{ field: fieldOf('evaluate', 'inputs'), groups: [[at('ct')]] }];
    const given = submission('evaluate', { files });
    const found = await findFiles(given);
    const leaving = (await outgoing(at('config')))(found);
    const reporter = memoryReporter();
    const planned = await planSending(found, leaving, { add: () => {} }, reporter);
    const staged = await stageFound(
      { submission: given, found, terms: unknownTerms, outgoing: leaving },
      memoryReporter(),
      undefined,
    );
    const { bytes } = await extractArchive(staged.parts[0]?.path ?? '', at('out'), bounds);
    await staged[Symbol.asyncDispose]();
    expect(planned).toMatchObject([{ path: at('ct'), name: 'case-0001', files: 2, bytes }]);
    expect([bytes, readdirSync(at('tmp'))]).toEqual([expect.any(Number), []]);
    expect(reporter.moves.at(-1)).toEqual(['Reading', expect.any(Number), 0]);
    const reason = new Error('stop');
    const stop = AbortSignal.abort(reason);
    const stopped = planSending(found, leaving, { add: () => {} }, memoryReporter(), stop);
    await expect(stopped).rejects.toBe(reason);
    expect(readdirSync(at('tmp'))).toEqual([]);
  });

  test('An archive of a data set does not depend on the order in which its directory is read', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'set/a.nii': Buffer.alloc(2 << 20), 'set/b.nii': 'x', 'set/c.nii': 'x' });
    const field = fieldOf('fine_tune', 'dataset');
    const given = submission('fine_tune', { archive: { field, path: path.join(directory.path, 'set') } });
    const found = await findFiles(given);
    const { dataSet } = found;
    if (!dataSet) throw new Error('there is no data set');
    const files = dataSet.set.files?.toReversed() ?? null;
    const archiveOf = async (all: typeof files) => {
      const turned = {
        ...found,
        dataSet: { ...dataSet, set: { ...dataSet.set, files: all } },
      } as typeof found;
      const terms = { ...unknownTerms, takesUploads: true };
      const staged = await stageFound(
        { submission: given, found: turned, terms, outgoing: null },
        memoryReporter(),
        undefined,
      );
      const archive = await readFile((await staged.uploads?.[0]?.make())?.path ?? '');
      await staged[Symbol.asyncDispose]();
      return archive.toString('latin1');
    };
    expect(await archiveOf(files?.toReversed() ?? null)).toBe(await archiveOf(files));
  });

  test('Staging uses a form for more files than a submission can name', async () => {
    const field = fieldOf('evaluate', 'inputs');
    const staged = async (count: number) => {
      const unit = { kind: 'file', name: 'a.nii', path: '/a.nii', size: 2 << 20, headers: [], series: null };
      const volumes = [{ field, groups: [Array(count).fill(unit)] }];
      const nothing = {
        ...{ skipped: [], copies: [], strays: [], followed: [], objects: [], unknown: [] },
        ...{ notes: [], cases: [], refused: [], dataSet: null },
      };
      const terms = { ...unknownTerms, takesUploads: true };
      const found = { volumes, ...nothing } as unknown as Awaited<ReturnType<typeof findFiles>>;
      const { uploads, parts } = await stageFound(
        { submission: submission('evaluate', {}), found, terms, outgoing: null },
        memoryReporter(),
        undefined,
      );
      return [uploads?.length ?? null, parts.length];
    };
    expect([await staged(10_000), await staged(10_001)]).toEqual([
      [10_000, 0],
      [null, 10_001],
    ]);
  });

  test('A plan shows exactly what would be sent: names, numbers of files and bytes', async () => {
    await using directory = await temporary();
    await plant(directory.path, {
      'a.nii': canary.nifti('x'),
      'b.nii': Buffer.concat([canary.nifti('x'), Buffer.from('behind')]),
      'ct/1.dcm': dicom,
      'ct/2.dcm': dicom,
      'set/x/a.nii': '123',
      'set.zip': zipOf({ 'a.nii': 'x' }),
    });
    const at = (name: string) => path.join(directory.path, name);
    const field = fieldOf('evaluate', 'inputs');
    const files = [{ field, groups: [[at('ct')], [at('a.nii'), at('b.nii')]] }];
    const found = await findFiles(submission('evaluate', { files }));
    const length = canary.nifti('x').length;
    const shared = { field: 'inputs', group: 1, files: 1 };
    const counted = { kept: [] as string[], removed: [] as string[] };
    const tally = {
      add: (sent: { readonly kept: readonly string[]; readonly removed: readonly string[] }) => {
        counted.kept.push(...sent.kept);
        counted.removed.push(...sent.removed);
      },
    };
    expect(await planSending(found, null, tally, memoryReporter())).toEqual([
      { field: 'inputs', group: 0, path: at('ct'), name: 'ct', files: 2, bytes: 2 * dicom.length },
      { ...shared, path: at('a.nii'), name: 'a.nii', bytes: length },
      { ...shared, path: at('b.nii'), name: 'b.nii', bytes: length + 6 },
    ]);
    expect(counted).toEqual({ kept: [], removed: [] });
    const volumes = found.volumes.map((each) => ({ ...each, groups: each.groups.slice(1) }));
    const leaving = (await outgoing(at('config')))({ ...found, volumes });
    const plan = await planSending({ ...found, volumes }, leaving, tally, memoryReporter());
    expect(plan).toMatchObject([
      { group: 0, name: 'case-0001.nii', files: 1 },
      { group: 0, name: 'case-0002.nii', files: 1 },
    ]);
    expect(plan[0]?.bytes).toBe(plan[1]?.bytes);
    const count = (names: string[], wanted: string) => names.filter((name) => name === wanted).length;
    expect([count(counted.kept, 'dim'), count(counted.removed, 'bytes behind the voxels')]).toEqual([2, 2]);
    for (const [name, count, bytes] of [
      ['set', 1, 3],
      ['set.zip', 1, statSync(at('set.zip')).size],
    ] as const) {
      const dataset = fieldOf('fine_tune', 'dataset');
      const tuned = await findFiles(submission('fine_tune', { archive: { field: dataset, path: at(name) } }));
      expect(await planSending(tuned, null, tally, memoryReporter())).toEqual([
        { field: 'dataset', group: 0, path: at(name), name: 'set.zip', files: count, bytes },
      ]);
    }
  });

  test('Staging packs a data set, and sends a zip as it is', async () => {
    const zip = zipOf({ 'case/ct.nii': 'x' });
    await using directory = await temporary();
    await plant(directory.path, { 'set/case/ct.nii': 'x', 'set/.cache': '', 'set.zip': zip });
    const field = fieldOf('fine_tune', 'dataset');
    const at = (name: string) => ({ archive: { field, path: path.join(directory.path, name) } });
    const packed = await stage(submission('fine_tune', at('set')), memoryReporter(), undefined);
    expect(packed.parts[0]).toMatchObject({ field: 'dataset', filename: 'set.zip' });
    await extractArchive(packed.parts[0]?.path ?? '', path.join(directory.path, 'out'), bounds);
    expect(await readdir(path.join(directory.path, 'out'))).toEqual(['case']);
    await packed[Symbol.asyncDispose]();
    const sent = await stage(submission('fine_tune', at('set.zip')), memoryReporter(), undefined);
    expect(sent.parts[0]).toMatchObject({ path: path.join(directory.path, 'set.zip'), size: zip.length });
    await sent[Symbol.asyncDispose]();
    expect(existsSync(path.join(directory.path, 'set.zip'))).toBe(true);
  });

  test('Staging refuses a data set that is neither a directory nor a zip, and one that does not exist', async () => {
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
