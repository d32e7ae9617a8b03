import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { readdir, symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { extractArchive } from '../../../src/archive/extract.js';
import { UsageError } from '../../../src/client/errors.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { findFiles, findVolumes } from '../../../src/imaging/inputs/index.js';
import { collect } from '../../client/support/collect.js';
import { memoryReporter } from '../../client/support/connect.js';
import { stage } from '../../client/support/stage.js';
import { metaHeader, pairHeader } from '../../support/headers.js';
import { dicom, plant, temporary } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';
import { zip, zipOf } from '../../support/zip.mjs';

/** A volume, as far as its first bytes show it. */
const nifti = pairHeader();

const bounds = { maxBytes: 1e6, maxEntries: 100 };

type Files = Readonly<Record<string, string | Buffer>>;

/** A directory with these files and links; paths in it. */
async function place(files: Files, links: Readonly<Record<string, string>> = {}) {
  const directory = await temporary();
  await plant(directory.path, files);
  for (const [name, target] of Object.entries(links)) {
    await plant(directory.path, { [`${path.dirname(name)}/`]: '' });
    await symlink(target, path.join(directory.path, name));
  }
  return Object.assign(directory, { at: (name: string) => path.join(directory.path, name) });
}

/** Kinds and names relative to the root. */
async function units(root: string, name: string): Promise<string[]> {
  const { units: found } = await collect([path.join(root, name)]);
  return found.map((unit) => `${unit.kind} ${path.relative(root, unit.path)}`);
}

function stageDataSet(dataSet: string) {
  const operation = operationOf('fine_tune');
  const archive = { field: fieldWithRole(operation, 'paths'), path: dataSet };
  const submission = { operation, app: 'tissue', fields: {}, options: {}, files: [], archive };
  return stage(submission, memoryReporter(), undefined);
}

/** The files of an archive that is sent, by name. */
async function sent(archive: string | undefined, copy: string): Promise<string[]> {
  await extractArchive(archive ?? '', copy, bounds);
  const entries = await readdir(copy, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(copy, path.join(entry.parentPath, entry.name)))
    .sort();
}

const annex = '../.git/annex/objects/Zx/9k/MD5E-s42--d41d8cd9.nii.gz/MD5E-s42--d41d8cd9.nii.gz';

describe('links to files and directories', () => {
  test('Links to files and directories are followed, and a cycle is walked once', async () => {
    await using root = await place(
      { 'real/a.nii': nifti, 'scans/b.nii': 'b' },
      { 'scans/a.nii': '../real/a.nii', 'scans/up': '..' },
    );
    expect(await units(root.path, 'scans')).toEqual([
      'file scans/a.nii',
      'file scans/b.nii',
      'file scans/up/real/a.nii',
    ]);
  });

  test('A directory that several links point to is sent once, under its first path, and the note names the others', async () => {
    await using root = await place(
      { 'real/a.nii': nifti, 'in/sub/b.nii': nifti },
      { 'in/one': '../real', 'in/two': '../real', 'in/sub/up': '..' },
    );
    expect(await units(root.path, 'in')).toEqual(['file in/one/a.nii', 'file in/sub/b.nii']);
    expect(await units(root.path, 'in/*/*.nii')).toEqual(['file in/one/a.nii', 'file in/sub/b.nii']);
    const files = [{ field: fieldWithRole(operationOf('infer'), 'paths'), groups: [[root.at('in')]] }];
    const { notes } = await findFiles({ files, archive: null });
    expect(notes).toContain(
      `Links lead again to directories that were searched already, and their contents are sent once: ${root.at('in/two')}`,
    );
    // A data set without one of its directories would be another one.
    await expect(stageDataSet(root.at('in'))).rejects.toThrow(
      `two' is the same directory as '${root.at('in/one')}'; a data set is sent with each directory once`,
    );
  });

  test('A pattern finds files at its depth, even if a link leads to the same directory at another depth', async () => {
    await using root = await place(
      {
        'in/a/x.nii': nifti,
        'in/b/c/scan.nii': nifti,
        'in/b/{d}/scan.nii': nifti,
        'in/.h/c/scan.nii': nifti,
      },
      { 'in/a/link': '../b' },
    );
    const of = async (pattern: string) => (await units(root.path, pattern)).map((each) => each.slice(8));
    expect(await of('in/*/*/scan.nii')).toEqual(['b/c/scan.nii', 'b/{d}/scan.nii']);
    expect(await of('in/**/c/scan.nii')).toEqual(['a/link/c/scan.nii']);
    expect(await of('in/{a/link,b}/c/*.nii')).toEqual(['a/link/c/scan.nii']);
    expect(await of('in/.h/**/*.nii')).toEqual(['.h/c/scan.nii']);
    expect(await of('in/**/[!s]*.nii')).toEqual(['a/x.nii']);
  });

  test('Twelve directories with links to each other are searched as quickly as any others', async () => {
    const all = [...Array(12).keys()];
    const links = all.flatMap((from) => all.map((to) => [`in/${from}/${to}`, `../${to}`] as const));
    await using root = await place(
      { 'in/3/scan.nii': nifti, 'in/.zarray': '{"zarr_format":2,"shape":[12,12,12],"chunks":[1,1,1]}' },
      Object.fromEntries(links),
    );
    await expect(units(root.path, 'in')).rejects.toThrow(
      "in/0/0' is a link to a directory, and part of a Zarr",
    );
    rmSync(root.at('in/.zarray'));
    const way = 'in/0/1/10/11/2/3/scan.nii';
    expect(await units(root.path, 'in')).toEqual([`file ${way}`]);
    expect(await units(root.path, 'in/**/*.nii')).toEqual([`file ${way}`]);
    expect((await findVolumes([root.at('in')])).map((unit) => unit.path)).toEqual([root.at(way)]);
    await expect(stageDataSet(root.at('in'))).rejects.toThrow('is the same directory as');
  });

  test.each([['scans/*'], ['scans/**'], ['sc*s/linked']])(
    'Links to files and directories are matched by the pattern %s',
    async (pattern) => {
      await using root = await place(
        { 'real/a.nii': nifti, 'scans/z/b.nii': nifti },
        { 'scans/linked': '../real', 'scans/z/up': '../..' },
      );
      expect(await units(root.path, pattern)).toContain('file scans/linked/a.nii');
    },
  );

  test('Links to files and directories can be the files of a series or of a store', async () => {
    await using root = await place(
      {
        '.git/annex/objects/1': dicom,
        '.git/annex/objects/2': dicom,
        '.git/annex/objects/3': '{}',
        ...zarrStore('in/ct.zarr'),
      },
      {
        'in/mr/IM1': '../../.git/annex/objects/1',
        'in/mr/IM2': '../../.git/annex/objects/2',
        'in/ct.zarr/.zattrs': '../../.git/annex/objects/3',
      },
    );
    expect(await units(root.path, 'in')).toEqual(['store in/ct.zarr', 'series in/mr']);
    const operation = operationOf('infer');
    const files = [{ field: fieldWithRole(operation, 'paths'), groups: [[root.at('in')]] }];
    await using staged = await stage(
      { operation, app: 'x', fields: {}, options: {}, files, archive: null },
      memoryReporter(),
      undefined,
    );
    expect(await sent(staged.parts[0]?.path, root.at('store'))).toEqual([
      '.zattrs',
      '.zgroup',
      '0/.zarray',
      '0/0',
    ]);
    expect(await sent(staged.parts[1]?.path, root.at('series'))).toEqual(['IM1', 'IM2']);
  });

  test('Links in a data set are sent as the files that they point to, and hidden files are not sent', async () => {
    const object = '.git/annex/objects/Zx/MD5E-s1--a.nii.gz';
    await using root = await place(
      { [`set/${object}`]: 'voxels', 'other/b.nii': nifti, 'set/.hidden': 'x' },
      {
        'set/sub-01/T1w.nii.gz': `../${object}`,
        'set/sub-02': '../other',
        'set/again': '.',
        'set/.lock': 'nowhere',
        link: 'set',
      },
    );
    for (const name of ['set', 'link']) {
      await using staged = await stageDataSet(root.at(name));
      expect(await sent(staged.parts[0]?.path, root.at(`copy-${name}`))).toEqual([
        'sub-01/T1w.nii.gz',
        'sub-02/b.nii',
      ]);
    }
  });
});

describe('files that cannot be sent', () => {
  test('A link that leads nowhere is refused by name, with the number of the others', async () => {
    const links = { 'in/a.nii': 'nowhere', 'in/b/c.nii': '../gone/c.nii', 'in/d.nii': 'd.nii' };
    await using root = await place({ 'in/ok.nii': 'x' }, links);
    const refused = units(root.path, 'in');
    await expect(refused).rejects.toThrow(UsageError);
    await expect(refused).rejects.toThrow(
      `'${root.at('in/a.nii')}' is a link to 'nowhere', which does not exist; 2 more cannot be sent either`,
    );
    await expect(units(root.path, 'in/*.nii')).rejects.toThrow("a.nii' is a link to 'nowhere'");
    await expect(units(root.path, 'in/a.nii')).rejects.toThrow("a.nii' is a link to 'nowhere'");
    await expect(units(root.path, 'in/d.nii')).rejects.toThrow(/d\.nii' cannot be read: .*ELOOP/);
  });

  test('Content that git-annex or Git LFS did not fetch is refused by name', async () => {
    const oid = '4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393';
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize 9437184\n`;
    await using root = await place(
      {
        'lfs.nii': pointer,
        'dicom/1.dcm': dicom,
        'dicom/2': pointer,
        'pair/x.mhd': metaHeader('x.raw'),
        'pair/x.raw': pointer,
        'unlocked.nii': '/annex/objects/MD5E-s42--d41d8cd9.nii.gz\n',
        'text/note.txt': 'version https://example.org',
      },
      { 'locked/T1w.nii.gz': annex },
    );
    for (const name of ['locked', 'locked/T1w.nii.gz', 'unlocked.nii']) {
      await expect(units(root.path, name)).rejects.toThrow(
        "has no content on this machine, since git-annex did not fetch it; run 'datalad get' or 'git annex get'",
      );
    }
    for (const name of ['lfs.nii', 'dicom', 'pair']) {
      await expect(units(root.path, name)).rejects.toThrow(
        "has no content on this machine, since Git LFS did not fetch it; run 'git lfs pull'",
      );
    }
    expect(await units(root.path, 'text/note.txt')).toEqual(['file text/note.txt']);
    await expect(stageDataSet(root.at('locked'))).rejects.toThrow(
      "T1w.nii.gz' has no content on this machine",
    );
  });

  test('A slice or a label that macOS has moved to iCloud is refused by name', async () => {
    await using root = await place({
      'series/IM1.dcm': dicom,
      'series/.IM2.dcm.icloud': 'bplist00',
      'labels/a.nii': 'x',
      'labels/.b.nii.icloud': 'bplist00',
    });
    for (const name of ['series', 'labels']) {
      await expect(units(root.path, name)).rejects.toThrow(
        /\.icloud' has no content on this machine, since iCloud did not fetch it; choose Download Now/,
      );
    }
    await expect(stageDataSet(root.at('labels'))).rejects.toThrow(".b.nii.icloud' has no content");
  });

  test('A FIFO is refused by name, both in a directory and as a path', async () => {
    await using root = await place({ 'in/a.nii': 'x' });
    execFileSync('mkfifo', [root.at('in/pipe.nii')]);
    for (const name of ['in', 'in/pipe.nii', 'in/*']) {
      await expect(units(root.path, name)).rejects.toThrow(
        "pipe.nii' is neither a file nor a directory but a FIFO",
      );
    }
    await expect(stageDataSet(root.at('in'))).rejects.toThrow('but a FIFO');
  });

  test('An empty volume is refused by name, both alone and among others', async () => {
    await using root = await place({ 'in/a.nii': '', 'in/b.nii': 'x', 'ct/1.dcm': dicom, 'ct/2.dcm': '' });
    for (const name of ['in', 'in/a.nii', 'in/*.nii']) {
      await expect(units(root.path, name)).rejects.toThrow("a.nii' is empty (0 bytes)");
    }
    await expect(units(root.path, 'ct')).rejects.toThrow("2.dcm' is empty (0 bytes)");
    await expect(stageDataSet(root.at('in'))).rejects.toThrow("a.nii' is empty (0 bytes)");
  });

  test.each([
    ['an empty directory', { 'set/': '' }, 'set', 'contains no file to send'],
    ['a directory of empty directories', { 'set/a/b/': '' }, 'set', 'contains no file to send'],
    ['a directory of hidden files', { 'set/.a': 'x', 'set/.git/b': 'x' }, 'set', 'contains no file to send'],
    ['an empty archive', { 'set.zip': zipOf({}) }, 'set.zip', 'is a zip archive without a file in it'],
    ['an archive of directories', { 'set.zip': zipOf({ 'a/': '' }) }, 'set.zip', 'without a file in it'],
    ['an empty file', { 'set.zip': '' }, 'set.zip', 'cannot be read as a zip archive'],
    ['no archive', { 'set.zip': 'x'.repeat(100) }, 'set.zip', 'it is not a zip archive'],
    [
      'an encrypted archive',
      { 'set.zip': zip([{ name: 'a', content: 'A', flags: 1 }]) },
      'set.zip',
      "cannot be read as a zip archive: its entry 'a' is encrypted; make the archive again without a password",
    ],
    ['nothing', {}, 'set', 'No such file or directory'],
  ])('A data set is refused by name: %s', async (_, files: Files, name, why) => {
    await using root = await place(files);
    const refused = stageDataSet(root.at(name));
    await expect(refused).rejects.toThrow(UsageError);
    await expect(refused).rejects.toThrow(`'${root.at(name)}'`);
    await expect(refused).rejects.toThrow(why);
  });

  test('A volume in an archive that the server cannot extract is refused by name', async () => {
    const archive = zip([{ name: 'a', content: 'A', method: 9 }]);
    await using root = await place({ 'in/b.nii': 'x', 'in/ct.konfaidir.zip': archive, 'in/ct.zip': archive });
    for (const name of ['in', 'in/ct.konfaidir.zip']) {
      const why =
        "ct.konfaidir.zip' cannot be read as a zip archive: its entry 'a' is compressed with Deflate64";
      await expect(units(root.path, name)).rejects.toThrow(why);
    }
    expect(await units(root.path, 'in/ct.zip')).toEqual(['file in/ct.zip']);
  });

  test('A store without a file is refused by name', async () => {
    await using root = await place({ 'ct.zarr/': '' });
    await expect(units(root.path, 'ct.zarr')).rejects.toThrow("ct.zarr' contains no file to send");
  });
});
