import { chmodSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { programPlaces } from '../../../src/server/sandbox/index.js';
import { plant, temporary } from '../../support/temporary.js';

test('A program includes its environment, the targets of its links, and its interpreter', async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, {
    'base/bin/python3.11': 'a program',
    'base/lib/python3.11/os.py': '',
    'base/share/notes': '',
    'environment/pyvenv.cfg': `home = ${at('base/bin')}\n`,
    'environment/bin/engine': `#!${at('environment/bin/python')}\n`,
    'tools/bin/': '',
    'tools/private/': '',
  });
  for (const each of ['base/bin/python3.11', 'environment/bin/engine']) chmodSync(at(each), 0o755);
  symlinkSync('python3.11', at('base/bin/python3'));
  symlinkSync(at('base/bin/python3'), at('environment/bin/python'));
  symlinkSync(at('environment/bin/engine'), at('tools/bin/engine'));
  expect(programPlaces('engine', `relative:${at('tools/bin')}`)).toEqual([
    at('base/bin'),
    at('base/lib'),
    at('environment'),
    at('tools/bin'),
  ]);
});

test('A script includes the program that env finds for it', async () => {
  await using root = await temporary();
  await plant(root.path, {
    'app/run': '#!/usr/bin/env -S VALUE=1 lab-python -u\n',
    'conda/bin/lab-python': '',
  });
  const program = path.join(root.path, 'app/run');
  const interpreter = path.join(root.path, 'conda/bin');
  for (const each of [program, path.join(interpreter, 'lab-python')]) chmodSync(each, 0o755);
  expect(programPlaces(program, interpreter)).toEqual(
    expect.arrayContaining([path.dirname(program), interpreter]),
  );
});

test('A script that selects a version includes all versions', async () => {
  await using root = await temporary();
  const shim = path.join(root.path, '.pyenv/shims/python3');
  await plant(root.path, { '.pyenv/shims/python3': '#!/bin/sh\n', '.pyenv/versions/3.11.7/bin/python3': '' });
  chmodSync(shim, 0o755);
  expect(programPlaces('python3', path.dirname(shim))).toContain(path.join(root.path, '.pyenv'));
});

test('A program beside other files includes only itself, and a missing one includes nothing', async () => {
  const script = `/tmp/remote-app-test-${process.pid}`;
  writeFileSync(script, '', { mode: 0o755 });
  onTestFinished(() => rmSync(script));
  expect(programPlaces(script, '')).toEqual([script]);
  expect(programPlaces('/tmp/remote-app-no-such-program', '')).toEqual([]);
  expect(programPlaces('no-such-program', '/usr/bin')).toEqual([]);
});
