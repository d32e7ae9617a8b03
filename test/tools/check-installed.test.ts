import { execFile } from 'node:child_process';
import { cp } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporary } from '../support/temporary.js';

const run = promisify(execFile);
const program = fileURLToPath(new URL('../../tools/check-installed.mjs', import.meta.url));

test('A build in a checkout without packages says what to do first', async () => {
  await using checkout = await temporary();
  const copy = path.join(checkout.path, 'tools', 'check-installed.mjs');
  await cp(program, copy);
  await expect(run(process.execPath, [copy])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("run 'npm ci' first"),
  });
});

test('A build in a checkout with packages says nothing', async () => {
  expect(await run(process.execPath, [program])).toEqual({ stdout: '', stderr: '' });
});
