import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { claimPlace } from '../../../src/client/result/claim-place.js';
import { claimedBy, foreseePlace, type OutputDirectory } from '../../../src/client/result/destination.js';
import { saveResult } from '../../../src/client/result/result.js';
import { zipOf } from '../../../support/zip.mjs';
import { ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';

const claimFile = '.remote-app-result';

/** An output directory of a test, and the entries beside it. */
async function world(taken: OutputDirectory['taken'] = 'number') {
  const root = await temporary();
  const directory = path.join(root.path, 'Output');
  return {
    root: root.path,
    directory,
    output: { directory, taken },
    names: async () => (await readdir(root.path, { recursive: true })).sort(),
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
    const foresee = (taken: OutputDirectory['taken']) =>
      foreseePlace({ directory: place.directory, taken }, null);
    expect(foresee('number')).toBe(`${place.directory}-4`);
    expect(foresee('replace')).toBe(place.directory);
    expect(() => foresee('refuse')).toThrow(/Output' has files already.*--output.*--force/);
  });

  test('may have files of version control and of the system', async () => {
    await using place = await world('refuse');
    await plant(place.root, { 'Output/.gitkeep': '', 'Output/.DS_Store': '' });
    expect(foreseePlace(place.output, null)).toBe(place.directory);
  });

  test('of an interrupted download is used again by the same job alone', async () => {
    await using place = await world();
    await plant(place.root, { [`Output/${claimFile}`]: 'ab\n', 'Output/result.zip': 'x', 'Output/half': '' });
    expect(foreseePlace(place.output, 'ab')).toBe(place.directory);
    expect(foreseePlace(place.output, 'cd')).toBe(`${place.directory}-2`);
    expect(() => foreseePlace({ ...place.output, taken: 'refuse' }, 'cd')).toThrow(/a part of .* job 'ab'/);
    const claimed = await claimPlace(place.output, 'ab');
    expect(claimed.directory).toBe(place.directory);
    await claimed.done();
    expect(await readdir(place.directory)).toEqual(['half', 'result.zip']);
  });

  test('that is given up is as it was before', async () => {
    await using place = await world();
    const deep = { directory: path.join(place.directory, 'deep', 'er'), taken: 'refuse' } as const;
    await (await claimPlace(deep, 'ab')).giveUp();
    expect(await place.names()).toEqual([]);
    await mkdir(place.directory);
    await (await claimPlace(place.output, 'ab')).giveUp();
    expect(await place.names()).toEqual(['Output']);
  });

  test('that is given up with a part of the result still belongs to the job', async () => {
    await using place = await world();
    const claimed = await claimPlace(place.output, 'ab');
    await writeFile(path.join(place.directory, 'result.zip'), '');
    await claimed.giveUp();
    expect((await claimPlace(place.output, 'ab')).directory).toBe(place.directory);
    expect((await claimPlace(place.output, 'cd')).directory).toBe(`${place.directory}-2`);
  });

  test('that --force writes into loses the claim of another job', async () => {
    await using place = await world('replace');
    await plant(place.root, { [`Output/${claimFile}`]: 'ab\n', 'Output/other': '' });
    await (await claimPlace(place.output, 'cd')).done();
    expect(await place.names()).toEqual(['Output', path.join('Output', 'other')]);
  });

  test.each(['number', 'replace'] as const)(
    'that another command is filling is not filled by a second one: %s',
    async (taken) => {
      await using place = await world(taken);
      const first = await claimPlace(place.output, 'ab');
      // The same job, and another one.
      for (const [count, job] of ['ab', 'cd'].entries()) {
        const other = await claimPlace(place.output, job);
        expect(other.directory).toBe(`${place.directory}-${count + 2}`);
        await writeFile(path.join(other.directory, 'file'), '');
        await other.done();
      }
      expect(claimedBy(place.directory)).toBe('ab');
      await first.done();
    },
  );

  test('of a command that was killed is taken over with --force', async () => {
    await using place = await world('replace');
    await plant(place.root, { [`Output/${claimFile}`]: 'ab\n', 'Output/other': '' });
    const claimed = await claimPlace(place.output, 'cd');
    expect([claimed.directory, claimedBy(place.directory)]).toEqual([place.directory, 'cd']);
    await claimed.giveUp();
    expect(await place.names()).toEqual(['Output', path.join('Output', 'other')]);
  });

  test('whose claim is a link is taken over with --force, and what that leads to stays', async () => {
    await using place = await world('replace');
    await plant(place.root, { elsewhere: 'cd', 'Output/other': '' });
    await symlink(path.join(place.root, 'elsewhere'), path.join(place.directory, claimFile));
    const claimed = await claimPlace(place.output, 'ab');
    expect([claimed.directory, claimedBy(place.directory)]).toEqual([place.directory, 'ab']);
    await claimed.done();
    expect(await readFile(path.join(place.root, 'elsewhere'), 'utf8')).toBe('cd');
  });

  test('of a command that was killed is cleared of what had come of the archive', async () => {
    await using place = await world();
    const partial = 'Output/result.zip.0123abcd.partial';
    await plant(place.root, { [`Output/${claimFile}`]: 'ab\n', [partial]: 'half', 'Output/own.partial': '' });
    await using server = await ScriptedServer.start((_, response) => {
      response.end(zipOf({ 'mask.nii': 'whole' }));
    });
    await using connection = connectTo(server.url);
    await saveResult(connection, 'ab', place.output, { wait: 30, reporter: memoryReporter() });
    expect((await readdir(place.directory)).sort()).toEqual(['mask.nii', 'own.partial', 'result.zip']);
  });
});
