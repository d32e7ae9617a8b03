import { chmodSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { readdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { checkOutput, foreseeOutput, type OutputDirectory } from '../../../src/client/result/place.js';
import { saveResult } from '../../../src/client/result/result.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';

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
  test.each(['number', 'refuse'] as const)(
    '%s: results that come at once into one directory are never mixed',
    async (taken) => {
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
    },
  );

  test('is known before the result if the directory has files: the next number, a refusal, or the same one', async () => {
    await using place = await world();
    await plant(place.root, { 'Output/mask.nii': '', 'Output-2/x': '', 'Output-3': 'a file' });
    const foresee = (taken: OutputDirectory['taken']) => foreseeOutput({ directory: place.directory, taken });
    expect(foresee('number')).toBe(`${place.directory}-4`);
    expect(foresee('replace')).toBe(place.directory);
    expect(() => foresee('refuse')).toThrow(/Output' has files already.*--output.*--force/);
  });

  test('may have files of version control and of the system', async () => {
    await using place = await world('refuse');
    await plant(place.root, { 'Output/.gitkeep': '', 'Output/.DS_Store': '' });
    expect(foreseeOutput(place.output)).toBe(place.directory);
  });

  test('that has files of the system when the result comes gets the result beside them', async () => {
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

  test('is one directory for two results only with --force; files of other names stay', async () => {
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
  test('may exist, may be missing and may be a link; the check leaves nothing behind', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'there/result.zip': 'older' });
    symlinkSync('there', path.join(directory.path, 'link'));
    for (const name of ['there', 'new', 'new/a/b/c', 'link', 'link/new']) {
      expect(refusal(path.join(directory.path, name)), name).toBeUndefined();
    }
    expect(readdirSync(directory.path).sort()).toEqual(['link', 'there']);
    expect(readdirSync(path.join(directory.path, 'there'))).toEqual(['result.zip']);
  });

  test('is refused if a file is in its place, and the message names the file', async () => {
    await using directory = await temporary();
    await plant(directory.path, { file: '', 'taken/result.zip/a': '' });
    symlinkSync('nowhere', path.join(directory.path, 'dangling'));
    const at = (name: string) => path.join(directory.path, name);
    expect(refusal(at('file'))).toBe(
      `Results cannot be saved in '${at('file')}': it is not a directory; choose another directory with --output`,
    );
    expect(refusal(at('file/a/b'))).toContain(`'${at('file')}' is not a directory`);
    expect(refusal(at('dangling'))).toContain('it is a link to something that does not exist');
    expect(refusal(at('taken'))).toContain(`'${at('taken/result.zip')}' is a directory`);
  });

  test.each(['n'.repeat(300), `missing/${'n'.repeat(300)}`])(
    'is refused if its name is too long',
    async (name) => {
      await using directory = await temporary();
      expect(refusal(path.join(directory.path, name))).toContain('name too long (ENAMETOOLONG)');
      expect(readdirSync(directory.path)).toEqual([]);
    },
  );

  test.skipIf(process.getuid?.() === 0)('is refused without write permission', async () => {
    await using directory = await temporary();
    const closed = path.join(directory.path, 'closed');
    mkdirSync(closed);
    chmodSync(closed, 0o500);
    expect(refusal(closed)).toContain('permission denied (EACCES)');
    expect(refusal(path.join(closed, 'new'))).toContain(
      `it cannot be made in '${closed}': permission denied`,
    );
  });

  test.skipIf(process.platform !== 'linux').each(['/proc', '/proc/remote-app', '/proc/remote-app/a', '/sys'])(
    'is refused in a file system of the kernel, also for root: %s',
    (directory) => {
      expect(refusal(directory)).toMatch(new RegExp(`^Results cannot be saved in '${directory}': `));
    },
  );
});
