import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { findProgram } from '../../src/files/index.js';
import { temporary } from '../support/temporary.js';

test('a program is found in the directories of PATH that are absolute, and in no other', async () => {
  await using directory = await temporary();
  const program = path.join(directory.path, 'engine');
  await writeFile(program, '', { mode: 0o755 });
  const fromHere = path.relative(process.cwd(), directory.path);
  expect(findProgram('engine', fromHere)).toBeUndefined();
  expect(findProgram('engine', [fromHere, directory.path].join(path.delimiter))).toBe(program);
});
