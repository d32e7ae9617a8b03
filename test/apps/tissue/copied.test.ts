import { cp, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { APP, tissue, workspace } from './program.js';

test('A copy of the app without its packages names the missing package and says how to install it', async () => {
  const cwd = await workspace();
  const copy = path.join(cwd, 'copy');
  await cp(APP, copy, { recursive: true, filter: (source) => path.basename(source) !== 'node_modules' });
  const { code, stderr } = await tissue(['infer', '--inputs', 'a.nii'], cwd, copy);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^The package \S+ is missing: run 'npm install' in the directory of this app\n$/);
});

test('The package.json of the app names every package that it imports, so that `npm install` in a copy is enough', async () => {
  const names = await readdir(APP, { recursive: true });
  const programs = names.filter((name) => name.endsWith('.mjs') && !name.includes('node_modules'));
  const texts = await Promise.all(programs.map((name) => readFile(path.join(APP, name), 'utf8')));
  const imported = texts
    .flatMap((text) => [...text.matchAll(/from '([^./'][^/']*)[^']*'/g)].map(([, name = '']) => name))
    .filter((name) => !name.startsWith('node:'));
  const { dependencies } = JSON.parse(await readFile(path.join(APP, 'package.json'), 'utf8'));
  expect(Object.keys(dependencies).sort()).toEqual([...new Set(imported)].sort());
});
