import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { FoundFiles } from '../../../src/client/found-files.js';
import type { DeidentifyChoice } from '../../../src/client/outgoing.js';
import { imaging } from '../../../src/imaging/index.js';
import { memoryReporter } from '../../client/support/connect.js';
import { temporary } from '../../support/temporary.js';

const nothing = { volumes: [] } as unknown as FoundFiles;

/** What is made of a choice for a server with these terms, and what is told. */
async function choose(choice: Partial<DeidentifyChoice>, requires: boolean | null = null, configDir = '') {
  await using directory = await temporary();
  const reporter = memoryReporter();
  const all = {
    ...{ mode: null, isRefused: false, allowed: [], profile: 'default' },
    ...{ configDir: configDir || path.join(directory.path, 'config') },
    ...choice,
  } as DeidentifyChoice;
  const preparing = { deidentify: all, requiresDeidentified: requires, server: 'the server' };
  const { note, outgoing } = await imaging.prepare([], preparing, reporter);
  return { note, outgoing: outgoing(nothing), second: outgoing(nothing, 2), notes: reporter.notes };
}

const faces =
  'A scan of a head shows a face, by which a person may be recognised: nothing here removes it (docs/privacy.md)';
const unasked =
  'the server accepts only de-identified files: they are de-identified here, as with --deidentify';

describe('the choice of de-identification', () => {
  test.each([
    [{}, null, null, []],
    [{}, false, null, []],
    [{ isRefused: true, mode: 'full' as const }, null, null, []],
    [{ mode: 'full' as const }, null, 'full', [faces]],
    [{ mode: 'names' as const }, false, 'names', [faces]],
    [{ mode: 'full' as const }, true, 'full', [faces]],
    [{}, true, 'full', [unasked, faces]],
  ])(
    'The choice %j and the requirement %j of a server result in the expected mode',
    async (choice, requires, mode, notes) => {
      const chosen = await choose(choice, requires);
      expect([chosen.note?.mode ?? null, chosen.notes]).toEqual([mode, notes]);
    },
  );

  test.each([
    [{ isRefused: true }, true, 'the server accepts only de-identified files; leave out --no-deidentify'],
    [{ mode: 'names' as const }, true, 'makes nothing but their names neutral; give --deidentify'],
    [{ allowed: ['burned-in'] }, null, '--allow-identifying is about what --deidentify refuses'],
    [
      { mode: 'full' as const, allowed: ['burned-in', 'report'] },
      null,
      "--allow-identifying 'report': there is no such kind; there are burned-in, overlay,",
    ],
  ])(
    'The choice %j and the requirement %j of a server are refused together',
    async (choice, requires, sentence) => {
      await expect(choose(choice, requires)).rejects.toThrow(sentence);
    },
  );

  test('De-identification uses the key of its profile, and other names and numbers get other keys', async () => {
    await using directory = await temporary();
    const keysOf = async (profile: string) => {
      const { outgoing, second } = await choose({ mode: 'full', profile }, null, directory.path);
      return [outgoing?.keyFor('k'), second?.keyFor('k')];
    };
    const keys = await keysOf('default');
    expect(await keysOf('default')).toEqual(keys);
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set([...keys, ...(await keysOf('lab'))]).size).toBe(4);
  });

  test('The note about de-identification says what was allowed', async () => {
    const { note, outgoing } = await choose({ mode: 'full', allowed: ['ultrasound', 'burned-in'] });
    expect(note).toEqual({ mode: 'full', allowed: ['burned-in', 'ultrasound'] });
    expect(outgoing?.note).toEqual(note);
    expect(await choose({})).toMatchObject({ note: null, outgoing: null });
  });
});
