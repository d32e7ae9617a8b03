import { closeSync, constants, existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { isOnPath, startError } from '../../src/files/find-program.js';
import { findProgram, lockPath } from '../../src/files/index.js';
import { plant, temporary } from '../support/temporary.js';

test('A program is searched for only in the absolute directories of PATH', async () => {
  await using directory = await temporary();
  const at = (name: string) => path.join(directory.path, name);
  const program = at('engine');
  await writeFile(program, '', { mode: 0o755 });
  await mkdir(at('first/engine'), { recursive: true });
  await mkdir(at('second'));
  await writeFile(at('second/engine'), '', { mode: 0o644 });
  const fromHere = path.relative(process.cwd(), directory.path);
  expect(findProgram('engine', fromHere)).toBeUndefined();
  expect(findProgram('engine', [fromHere, directory.path].join(path.delimiter))).toBe(program);
  // Neither a directory nor a file that may not be executed is one.
  const all = [at('first'), at('second'), directory.path].join(path.delimiter);
  expect(findProgram('engine', all)).toBe(program);
  expect(findProgram(program, '')).toBe(program);
  expect(findProgram(path.relative(process.cwd(), program), directory.path)).toBeUndefined();
  expect(findProgram(at('second/engine'), '')).toBeUndefined();
});

test('A program that is not on PATH is reported as missing, whatever error the system returned', async () => {
  await using directory = await temporary();
  await writeFile(path.join(directory.path, 'engine'), '', { mode: 0o644 });
  const refused = Object.assign(new Error('spawn EACCES'), { code: 'EACCES' });
  const missing = Object.assign(new Error('spawn ENOENT'), { code: 'ENOENT' });
  expect(isOnPath('engine', `:${directory.path}`)).toBe(true);
  expect(isOnPath('engine', '')).toBe(false);
  expect(isOnPath('other', directory.path)).toBe(false);
  expect(startError(refused, 'engine', directory.path)).toBe(refused);
  expect(startError(refused, 'a/other', directory.path)).toBe(refused);
  expect(startError(missing, 'other', directory.path)).toBe(missing);
  expect(startError(refused, 'other', directory.path)).toMatchObject({
    code: 'ENOENT',
    message: 'other is not on PATH',
    cause: refused,
  });
});

test.skipIf(!existsSync('/usr/bin/flock'))(
  'The flock program is found even if a service manager sets no PATH',
  async () => {
    await using root = await temporary();
    await plant(root.path, { file: '' });
    const before = process.env.PATH;
    delete process.env.PATH;
    try {
      const lock = () => lockPath(path.join(root.path, 'file'), constants.O_RDONLY);
      for (let time = 0; time < 2; time += 1) {
        const locked = lock();
        expect(locked).toEqual({ descriptor: expect.any(Number) });
        expect(lock()).toBe('taken');
        if (typeof locked === 'object' && 'descriptor' in locked) closeSync(locked.descriptor);
      }
    } finally {
      process.env.PATH = before;
    }
  },
);
