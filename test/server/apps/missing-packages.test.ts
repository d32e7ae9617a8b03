import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { missingPackages, pythonWithoutCuda } from '../../../src/server/apps/missing-packages.js';
import { plant, temporary } from '../../support/temporary.js';

/** The directory of an app. */
async function app(files: Readonly<Record<string, string>>): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const directory = path.join(root.path, 'app');
  await plant(directory, files);
  return directory;
}

const searched = process.env.PATH ?? '';

/** What is told of an app that Node runs, without the place of the app. */
async function ofNode(files: Readonly<Record<string, string>>, program = 'main.mjs', runs = 'node') {
  const directory = await app(files);
  const command = [runs, path.join(directory, program)];
  const told = await missingPackages(directory, command, searched, 'python');
  return told.map((line) => line.replaceAll(directory, '.'));
}

test('A program that Node cannot parse is reported with its line, if Node runs it', async () => {
  const files = { 'main.mjs': 'const a = 1;\n\nconst = 2;\n', 'main.sh': 'const = 2;' };
  expect(await ofNode(files)).toEqual([
    expect.stringMatching(/^\.\/main\.mjs, line 3: SyntaxError: Unexpected token /),
  ]);
  expect(await ofNode(files, 'main.mjs', 'deno')).toEqual([]);
  expect(await ofNode(files, 'main.sh')).toEqual([]);
  expect(await ofNode(files, 'gone.mjs')).toEqual([]);
});

/** An app with a Python of its own that answers this, and notes what it is asked. */
async function withPython(answer: string, files: Readonly<Record<string, string>> = {}) {
  const directory = await app({
    'venv/bin/python3': `#!/bin/sh\nshift 2\nprintf '%s\\n' "$@" > "${'$'}{0%/venv*}/asked"\n${answer}\n`,
    'main.py': '',
    ...files,
  });
  const python = path.join(directory, 'venv/bin/python3');
  chmodSync(python, 0o755);
  const asked = path.join(directory, 'asked');
  return {
    python,
    directory,
    /** The words that it was asked with since the last time; null if it was not. */
    asked: () => {
      if (!existsSync(asked)) return null;
      const words = readFileSync(asked, 'utf8').replaceAll(directory, '.').trim().split('\n');
      rmSync(asked);
      return words;
    },
    told: async (
      how: 'files' | 'python' | 'own-python',
      command = [python, path.join(directory, 'main.py')],
    ) =>
      (await missingPackages(directory, command, searched, how)).map((line) =>
        line.replaceAll(directory, '.'),
      ),
  };
}

const requirements = [
  '# ours',
  '-r more.txt',
  'torch==2.6  # a note',
  ' SimpleITK ',
  'pydicom[gdcm] >= 2',
  'numpy<3,>=1',
  'other; python_version < "3"',
  './local',
  'direct @ https://example.org/x.whl',
].join('\n');

const answer = (packages: string[], modules: unknown[] = [], broken: unknown[] = []) =>
  `printf %s '${JSON.stringify({ packages, modules, broken })}'`;

test("An app's own Python is started only for its author, because it runs outside the sandbox", async () => {
  const { told, asked } = await withPython(
    answer(['torch', 'numpy'], [['yaml', 'net.py', 3]], [['old.py', 7, 'Missing\nparentheses']]),
    { 'requirements.txt': requirements },
  );
  for (const how of ['files', 'python'] as const) expect([await told(how), asked()]).toEqual([[], null]);
  expect(await told('own-python')).toEqual([
    './requirements.txt: 2 packages not installed for ./venv/bin/python3: torch, numpy; ' +
      "run './venv/bin/python3 -m pip install -r requirements.txt' in '.'",
    'old.py, line 7: ./venv/bin/python3 cannot read it: Missing\\x0aparentheses',
    "net.py, line 3: ./venv/bin/python3 has no module 'yaml'; install the package that brings it",
  ]);
  expect(asked()).toEqual(['.', './main.py', 'torch', 'SimpleITK', 'pydicom', 'numpy']);
});

test('A Python that runs no file of the app is asked only for its requirements', async () => {
  const { told, asked, python } = await withPython(answer([]), { 'requirements.txt': 'torch' });
  expect(await told('own-python', [python, '-m', 'lab', '/opt/main.py'])).toEqual([]);
  expect(asked()).toEqual(['.', '', 'torch']);
});

test.each(['exit 1', 'echo no', `echo '{"packages": 1}'`, `${answer(['torch'])}; exit 3`])(
  'A Python that does %j yields no findings',
  async (script) => {
    expect(await (await withPython(script)).told('own-python')).toEqual([]);
  },
);

test.each([
  ['torch', 'echo true', true],
  ['torch', 'echo false', false],
  ['torch', 'exit 1', false],
  ['torchvision', 'echo true', false],
])(
  'With %j required, the check of a Python that runs %j reports missing CUDA: %j',
  async (required, script, isWithout) => {
    const { directory, python, asked } = await withPython(script, { 'requirements.txt': required });
    expect(await pythonWithoutCuda(directory, [python], searched)).toBe(isWithout ? python : null);
    expect(asked() !== null).toBe(required === 'torch');
    expect(await pythonWithoutCuda(directory, ['sh', python], searched)).toBeNull();
  },
);
