import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type DeidentifyChoice,
  deidentifierFor,
  noteOf,
  originalsOf,
  outgoingOf,
} from '../../../src/imaging/deidentify/index.js';
import type { FoundFiles } from '../../../src/imaging/inputs/index.js';
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
  const made = await deidentifierFor(all, { requiresDeidentified: requires }, 'the server', reporter);
  return { made, mode: made?.mode ?? null, notes: reporter.notes };
}

const faces =
  'A scan of a head shows a face, by which a person may be recognised: nothing here removes it (docs/privacy.md)';
const unasked =
  'the server takes de-identified files alone: they are de-identified here, as with --deidentify';

describe('what makes files neutral', () => {
  test.each([
    [{}, null, null, []],
    [{}, false, null, []],
    [{ isRefused: true, mode: 'full' as const }, null, null, []],
    [{ mode: 'full' as const }, null, 'full', [faces]],
    [{ mode: 'names' as const }, false, 'names', [faces]],
    [{ mode: 'full' as const }, true, 'full', [faces]],
    [{}, true, 'full', [unasked, faces]],
  ])('for %j, and a server that asks for it: %j', async (choice, requires, mode, notes) => {
    const chosen = await choose(choice, requires);
    expect([chosen.mode, chosen.notes]).toEqual([mode, notes]);
  });

  test.each([
    [{ isRefused: true }, true, 'the server takes de-identified files alone; leave out --no-deidentify'],
    [{ mode: 'names' as const }, true, 'makes nothing but their names neutral; give --deidentify'],
    [{ allowed: ['burned-in'] }, null, '--allow-identifying is about what --deidentify refuses'],
    [
      { mode: 'full' as const, allowed: ['burned-in', 'report'] },
      null,
      "--allow-identifying 'report': there is no such kind; there are burned-in, overlay,",
    ],
  ])('is refused for %j, and a server that asks for it: %j', async (choice, requires, sentence) => {
    await expect(choose(choice, requires)).rejects.toThrow(sentence);
  });

  test('tells of faces once in a configuration directory', async () => {
    await using directory = await temporary();
    // It need not be there before.
    for (const configDir of [directory.path, path.join(directory.path, 'new', 'config')]) {
      expect((await choose({ mode: 'full' }, null, configDir)).notes).toEqual([faces]);
      expect((await choose({ mode: 'names' }, null, configDir)).notes).toEqual([]);
    }
  });

  test('has the key of its profile, and gives other keys for other names and numbers', async () => {
    await using directory = await temporary();
    const keyOf = async (profile: string, first?: number) => {
      const { made } = await choose({ mode: 'full', profile }, null, directory.path);
      return outgoingOf(made, nothing, first)?.keyFor('k');
    };
    const keys = [await keyOf('default'), await keyOf('default', 1)];
    expect(keys[0]).toBe(keys[1]);
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set([keys[0], await keyOf('default', 2), await keyOf('lab')]).size).toBe(3);
  });

  test('is noted with what was allowed', async () => {
    const { made } = await choose({ mode: 'full', allowed: ['ultrasound', 'burned-in'] });
    const outgoing = outgoingOf(made, nothing);
    expect(noteOf(outgoing)).toEqual({ mode: 'full', allowed: ['burned-in', 'ultrasound'] });
    expect([noteOf(null), outgoingOf(null, nothing), originalsOf(null)]).toEqual([null, null, {}]);
  });
});
