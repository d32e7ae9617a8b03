import { chmodSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { residentEngine } from '../../../src/server/apps/index.js';
import { SetupError } from '../../../src/server/setup-error.js';
import { plant, temporary } from '../../support/temporary.js';

const workers = '/package/engines';
const worker = '/package/engines/konfai_worker.py';
const body = 'import sys\nfrom konfai_apps import main_apps\nsys.exit(main_apps())\n';

/** What becomes of a program with this text, which PATH finds beside a Python: PLACE is the directory of both. */
async function found(name: string, text: string): Promise<readonly string[]> {
  await using directory = await temporary();
  const place = directory.path;
  await plant(place, { [name]: text.replaceAll('PLACE', place), python3: '', 'a path/python': '' });
  for (const each of [name, 'python3', 'a path/python']) chmodSync(path.join(place, each), 0o755);
  return residentEngine([name], place, workers).map((word) => word.replace(place, 'PLACE'));
}

describe('the command of a resident engine', () => {
  test("The command of a resident engine is this package's worker, run by the Python in which KonfAI is installed", async () => {
    expect(await found('konfai-apps', `#!PLACE/python3\n${body}`)).toEqual(['PLACE/python3', worker]);
    expect(await found('my-engine', `#!/usr/bin/env python3\n${body}`)).toEqual(['PLACE/python3', worker]);
    const throughShell = `#!/bin/sh\n'''exec' "PLACE/a path/python" "$0" "$@"\n' '''\n${body}`;
    expect(await found('konfai-apps', throughShell)).toEqual(['PLACE/a path/python', worker]);
    const python = '/opt/konfai/bin/python3';
    expect(residentEngine([python, '-m', 'konfai_apps'], '', workers)).toEqual([python, worker]);
  });

  test('The command of a resident engine is the engine itself if it is not KonfAI', async () => {
    expect(await found('other', '#!/bin/sh\nexit 0\n')).toEqual(['other']);
    expect(residentEngine(['node', 'engine.mjs'], '', workers)).toEqual(['node', 'engine.mjs']);
    expect(residentEngine(['not-there'], '', workers)).toEqual(['not-there']);
  });

  test('The command of a resident engine cannot be determined from a shim for KonfAI', async () => {
    const shim = found('konfai-apps', '#!/usr/bin/env bash\nexec pyenv exec konfai-apps "$@"\n');
    await expect(shim).rejects.toThrow(SetupError);
    await expect(shim).rejects.toThrow(/konfai-apps does not say which Python it is for.*--engine \/opt/);
  });
});

test('The worker is in the package', () => {
  const root = new URL('../../../', import.meta.url);
  const { files } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
  expect(files).toContain('engines/konfai_worker.py');
  expect(readFileSync(new URL('engines/konfai_worker.py', root), 'utf8')).toContain('def main()');
});
