import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AllowedApps, checkNamedApps, readSources, uniqueApps } from '../../../src/server/apps/allowlist.js';
import { plant, temporary } from '../../support/temporary.js';

async function place(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  await plant(root.path, files);
  return root.path;
}

/** What a directory of apps tells when it is looked at again. */
async function shelf(...names: string[]) {
  const root = await place(Object.fromEntries(names.map((name) => [`${name}/app.json`, '{}'])));
  const told: unknown[] = [];
  const apps = new AllowedApps([root], {
    changed: (change) => told.push(change),
    failed: (problem, cause) => told.push([problem, String(cause).replaceAll(root, '.')]),
  });
  return { root, told, apps };
}

test('A reload reports added and removed apps, and keeps the current ones if it fails', async () => {
  const { root, told, apps } = await shelf('a', 'b');
  apps.reload();
  expect([[...apps.current.keys()], told]).toEqual([['a', 'b'], []]);
  await plant(root, { 'c/app.json': '{}', 'no-app/x': '' });
  rmSync(path.join(root, 'a'), { recursive: true });
  apps.reload();
  expect(told).toEqual([{ added: ['c'], removed: ['a'] }]);
  for (const name of ['b', 'c']) rmSync(path.join(root, name), { recursive: true });
  expect(() => apps.reload()).toThrow(
    `--apps ${root}: neither this directory nor one directly in it has an app.json`,
  );
  expect([...apps.current.keys()]).toEqual(['b', 'c']);
});

test('A directory without apps is reported at the start', async () => {
  const empty = await place();
  const { root } = await shelf('a');
  const told: unknown[] = [];
  const list = path.join(root, 'apps.json');
  writeFileSync(list, JSON.stringify({ apps: [{ name: 'n', source: './a', network: true }, './a'] }));
  const failed = (problem: string, cause: unknown) => told.push([problem, cause]);
  const apps = new AllowedApps([empty, list], { changed: () => {}, failed });
  expect(told).toEqual([
    [
      'A directory has no app that can be used',
      `--apps ${empty}: neither this directory nor one directly in it has an app.json`,
    ],
  ]);
  expect([...apps.current.values()].map(({ id, network, directory }) => [id, network, directory])).toEqual([
    ['n', true, path.join(root, 'a')],
    ['./a', false, path.join(root, 'a')],
  ]);
});

test('--network and --share-workers refuse an app that does not exist', async () => {
  const { root } = await shelf('a', 'b');
  mkdirSync(path.join(root, 'lost+found'));
  const apps = uniqueApps(readSources([root]));
  const none = { network: [], 'share-workers': [] };
  checkNamedApps(none, new Map());
  checkNamedApps({ ...none, network: ['b', 'a'] }, apps);
  for (const flag of Object.keys(none))
    expect(() => checkNamedApps({ ...none, [flag]: ['a', 'c'] }, apps)).toThrow(
      `--${flag} c: there is no such app; there are: a, b`,
    );
  expect(() => checkNamedApps({ ...none, network: ['c'] }, new Map())).toThrow('there are: none');
});
