import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { readdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { PrivateDirectory } from '../../../src/client/result/fetch-archive.js';
import {
  checkOutput,
  foreseeOutput,
  hasFiles,
  type OutputDirectory,
} from '../../../src/client/result/output-directory.js';
import { openBelow } from '../../support/open-files.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';
import { saveResult } from '../support/save-result.js';

/** An output directory of a test, and the entries beside it. */
async function world(taken: OutputDirectory['taken'] = 'number') {
  const root = await temporary();
  const directory = path.join(root.path, 'Output');
  return {
    root: root.path,
    directory,
    output: { directory, taken },
    [Symbol.asyncDispose]: () => root[Symbol.asyncDispose](),
  };
}

describe('the place of a result', () => {
  test.each(['number', 'refuse'] as const)('Results in one directory are never mixed: %s', async (taken) => {
    await using place = await world(taken);
    const jobs = Array.from({ length: 6 }, (_, index) => `job${index}`);
    let asked = 0;
    let open = () => {};
    const all = new Promise<void>((resolve) => {
      open = resolve;
    });
    await using server = await ScriptedServer.start(async ({ url }, response) => {
      asked += 1;
      if (asked === jobs.length) open();
      await all;
      const id = url.split('/')[2] ?? '';
      response.end(zipOf({ 'mask.nii': id, [`${id}.txt`]: id }));
    });
    await using connection = connectTo(server.url);
    const saved = await Promise.all(
      jobs.map((id) => saveResult(connection, id, place.output, { wait: 30, reporter: memoryReporter() })),
    );
    expect(saved.map(({ output }) => path.basename(output)).sort()).toEqual(
      jobs.map((_, index) => (index === 0 ? 'Output' : `Output-${index + 1}`)),
    );
    for (const [index, { output }] of saved.entries()) {
      expect((await readdir(output)).sort()).toEqual([`${jobs[index]}.txt`, 'mask.nii', 'result.zip']);
      expect(await readFile(path.join(output, 'mask.nii'), 'utf8')).toBe(jobs[index]);
    }
  });

  test('If the directory of a result has files, its place is decided in advance: the next number, a refusal, or the same one', async () => {
    await using place = await world();
    await plant(place.root, {
      'Output/mask.nii': '',
      'Output-2/x': '',
      'Output-3': 'a file',
      'Output-5/': '',
    });
    const foresee = (taken: OutputDirectory['taken']) => foreseeOutput({ directory: place.directory, taken });
    expect(foresee('number')).toBe(`${place.directory}-4`);
    expect(foresee('replace')).toBe(place.directory);
    expect(() => foresee('refuse')).toThrow(/Output' already contains files.*--output.*--force/);
    await plant(place.root, { 'Output-4/x': '', 'Free/.gitkeep': '' });
    expect(foresee('number')).toBe(`${place.directory}-5`);
    const free = path.join(place.root, 'Free');
    for (const taken of ['number', 'refuse', 'replace'] as const)
      expect(foreseeOutput({ directory: free, taken })).toBe(free);
  });

  test('A result gets another place if its own was filled in the meantime, whatever its number', async () => {
    await using place = await world();
    const own = await PrivateDirectory.make(place.directory);
    await plant(own.files, { 'a.nii': 'mask', 'result.zip': 'zip' });
    await plant(place.root, { 'Output/mine': '', 'Output-2/result.zip': 'theirs', 'Output-3/': '' });
    expect(await own.moveTo(place.output, 'result.zip')).toEqual({
      output: `${place.directory}-3`,
      unplaced: 0,
    });
    await own.remove();
    expect((await readdir(place.root)).sort()).toEqual(['Output', 'Output-2', 'Output-3']);
    expect(await readdir(path.join(place.root, 'Output'))).toEqual(['mine']);
    expect((await readdir(path.join(place.root, 'Output-3'))).sort()).toEqual(['a.nii', 'result.zip']);
  });

  test('The place of a result is created if it is missing, even with --force', async () => {
    await using place = await world();
    const own = await PrivateDirectory.make(place.directory);
    await plant(own.files, { 'a.nii': 'mask' });
    const output = { ...place.output, taken: 'replace' } as const;
    expect(await own.moveTo(output, 'result.zip')).toEqual({ output: place.directory, unplaced: 0 });
    expect(await readdir(place.directory)).toEqual(['a.nii']);
  });

  test('A result is moved in next to existing system files, which are kept and counted', async () => {
    await using place = await world();
    await plant(place.root, { 'Output/.DS_Store': 'mine', 'Output/lost+found/a': 'mine' });
    const own = await PrivateDirectory.make(place.directory);
    // It is on the same file system as its place: inside it.
    expect(path.dirname(own.directory)).toBe(place.directory);
    await plant(own.files, {
      'result.zip': 'zip',
      'a.nii': 'mask',
      '.DS_Store/x/a': 'new',
      '.DS_Store/x/b': 'new',
      'lost+found/b': 'new',
      'lost+found/a': 'new',
    });
    expect(await own.moveTo(place.output, 'result.zip')).toEqual({ output: place.directory, unplaced: 3 });
    await own.remove();
    expect((await readdir(place.directory)).sort()).toEqual([
      '.DS_Store',
      'a.nii',
      'lost+found',
      'result.zip',
    ]);
    const read = (name: string) => readFile(path.join(place.directory, name), 'utf8');
    expect(await Promise.all(['.DS_Store', 'lost+found/a', 'lost+found/b'].map(read))).toEqual([
      'mine',
      'mine',
      'new',
    ]);
  });

  test('Directories that were created for a result that never arrived are removed, and existing ones stay', async () => {
    await using place = await world();
    const deep = path.join(place.root, 'there', 'new', 'Output');
    await plant(place.root, { 'there/': '' });
    const own = await PrivateDirectory.make(deep);
    expect(statSync(own.directory).mode & 0o777).toBe(0o700);
    await own.remove();
    expect(await readdir(place.root, { recursive: true })).toEqual(['there']);
    const shared = await PrivateDirectory.make(deep);
    await plant(place.root, { 'there/new/mine': '' });
    await shared.remove();
    await shared.remove();
    expect((await readdir(place.root, { recursive: true })).sort()).toEqual([
      'there',
      path.join('there', 'new'),
      path.join('there', 'new', 'mine'),
    ]);
  });

  test('If the place of a result cannot be used, that is an error, and no other place is chosen', async () => {
    await using place = await world();
    const own = await PrivateDirectory.make(place.directory);
    await expect(own.moveTo({ ...place.output, directory: `${own.files}/a` }, 'x')).rejects.toMatchObject({
      code: 'EINVAL',
      syscall: 'rename',
    });
    await plant(place.root, { 'Output/.gitkeep': '' });
    await expect(own.moveTo(place.output, 'none/result.zip')).rejects.toMatchObject({ code: 'ENOENT' });
    await own.remove();
    expect(await readdir(place.root)).toEqual(['Output']);
  });

  test('The place of a result may have files of version control and of the system, and no others', async () => {
    await using root = await temporary();
    const ofNobody = [
      ...['.gitkeep', '.gitignore', '.remote-app-aB3_9z', '.DS_Store', '._', '._mask.nii', '.nfs0001'],
      ...['Thumbs.db', 'desktop.ini', 'lost+found'],
    ];
    const ofSomebody = [
      ...['my.gitkeep', '.gitkeep2', '.git', '.remote-app-aB3_9', '.remote-app', 'a.DS_Store', 'a._b'],
      ...['Thumbs.db.nii', 'aThumbs.db', 'desktop-ini', 'lost+found2', '.hidden', 'mask.nii'],
    ];
    const names = [...ofNobody, ...ofSomebody];
    await plant(root.path, Object.fromEntries(names.map((name, index) => [`${index}/${name}`, ''])));
    expect(names.filter((_, index) => hasFiles(path.join(root.path, String(index))))).toEqual(ofSomebody);
  });

  test('A result is placed next to system files that are there when it arrives', async () => {
    await using place = await world();
    await plant(place.root, { 'Output/.gitkeep': 'own' });
    await using server = await ScriptedServer.start((_, response) => {
      response.end(zipOf({ 'deep/mask.nii': 'mask', '.gitkeep': 'of the app' }));
    });
    await using connection = connectTo(server.url);
    const saving = saveResult(connection, 'ab', place.output, { wait: 30, reporter: memoryReporter() });
    await expect(saving).rejects.toThrow(/only a part .* something else is in the place of 1 file;/);
    expect(await readFile(path.join(place.directory, '.gitkeep'), 'utf8')).toBe('own');
    expect((await readdir(place.directory)).sort()).toEqual(['.gitkeep', 'deep', 'result.zip']);
  });

  test('Two results share a directory only with --force, and files of other names stay', async () => {
    await using place = await world('replace');
    await plant(place.root, { 'Output/mask.nii': 'older', 'Output/deep/own': 'own', 'Output/taken/a': '' });
    await symlink('..', path.join(place.directory, 'link'));
    await using server = await ScriptedServer.start(({ url }, response) => {
      const [, , id] = url.split('/');
      const files = { 'mask.nii': 'new', 'deep/new': 'new' };
      response.end(zipOf(id === 'ab' ? files : { ...files, taken: 'a file', 'link/outside': '' }));
    });
    await using connection = connectTo(server.url);
    const save = (id: string) =>
      saveResult(connection, id, place.output, { wait: 30, reporter: memoryReporter() });
    expect(await save('ab')).toMatchObject({ output: place.directory, files: 2 });
    expect(await readFile(path.join(place.directory, 'mask.nii'), 'utf8')).toBe('new');
    expect((await readdir(path.join(place.directory, 'deep'))).sort()).toEqual(['new', 'own']);
    await expect(save('cd')).rejects.toThrow(/something else is in the place of 2 files;/);
    expect(await readdir(place.root)).toEqual(['Output']);
  });
});

/** The sentence that refuses a directory; undefined if it is accepted. */
function refusal(directory: string): string | undefined {
  try {
    checkOutput(directory);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
}

describe('a directory for results', () => {
  test('A directory for results may exist, may be missing and may be a link; the check leaves nothing behind', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'there/result.zip': 'older' });
    symlinkSync('there', path.join(directory.path, 'link'));
    for (const name of ['there', 'new', 'new/a/b/c', 'link', 'link/new']) {
      expect(refusal(path.join(directory.path, name)), name).toBeUndefined();
    }
    expect(readdirSync(directory.path).sort()).toEqual(['link', 'there']);
    expect(readdirSync(path.join(directory.path, 'there'))).toEqual(['result.zip']);
    expect(openBelow(directory.path)).toEqual([]);
  });

  test('A directory for results is refused if a file is in its place, and the message names the file', async () => {
    await using directory = await temporary();
    await plant(directory.path, { file: '', 'taken/result.zip/a': '' });
    symlinkSync('nowhere', path.join(directory.path, 'dangling'));
    const at = (name: string) => path.join(directory.path, name);
    expect(refusal(at('file'))).toBe(
      `Results cannot be saved in '${at('file')}': it is not a directory; choose another directory with --output`,
    );
    const choose = 'choose another directory with --output';
    const saved = (name: string) => `Results cannot be saved in '${at(name)}'`;
    expect(refusal(at('file/a/b'))).toBe(
      `${saved('file/a/b')}: '${at('file')}' is not a directory; ${choose}`,
    );
    expect(refusal(at('dangling'))).toBe(
      `${saved('dangling')}: it is a link to something that does not exist; ${choose}`,
    );
    expect(refusal(at('taken'))).toBe(
      `'${at('taken/result.zip')}' is a directory, and the result gets this name; move it, or ${choose}`,
    );
    expect(refusal(at('taken/new'))).toBeUndefined();
  });

  test.each(['n'.repeat(300), `missing/${'n'.repeat(300)}`])(
    'A directory for results is refused if its name is too long',
    async (name) => {
      await using directory = await temporary();
      const target = path.join(directory.path, name);
      expect(refusal(target)).toMatch(
        /^Results cannot be saved in '.*': .*name too long \(ENAMETOOLONG\); choose another directory with --output$/,
      );
      expect(readdirSync(directory.path)).toEqual([]);
    },
  );

  test.skipIf(process.getuid?.() === 0)('A directory for results is refused if it is read-only', async () => {
    await using directory = await temporary();
    const closed = path.join(directory.path, 'closed');
    mkdirSync(closed);
    chmodSync(closed, 0o500);
    expect(refusal(closed)).toContain('permission denied (EACCES)');
    expect(refusal(path.join(closed, 'new'))).toContain(
      `it cannot be created in '${closed}': permission denied`,
    );
  });

  test.skipIf(process.platform !== 'linux').each(['/proc', '/proc/remote-app', '/proc/remote-app/a', '/sys'])(
    'A directory for results is refused in a kernel file system, even for root: %s',
    (directory) => {
      expect(refusal(directory)).toMatch(new RegExp(`^Results cannot be saved in '${directory}': `));
    },
  );
});
