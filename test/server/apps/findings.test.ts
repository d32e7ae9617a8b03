import { chmodSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { lookAtApps } from '../../../src/server/apps/app-problems.js';
import { isAppDirectory, ownProgram, staysLoaded } from '../../../src/server/apps/app-view.js';
import { plant, temporary } from '../../support/temporary.js';

const least = { display_name: 'x', description: 'x', short_description: 'x', tta: 2, mc_dropout: 1 };
const volume = { display_name: 'x', volume_type: 'VOLUME' };

async function place(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  await plant(root.path, files);
  return root.path;
}

/** A directory with one app, `app`. */
async function appWith(more: object, files: Readonly<Record<string, string>> = {}) {
  const root = await place();
  const directory = path.join(root, 'app');
  await plant(directory, { 'app.json': JSON.stringify({ ...least, ...more }), ...files });
  return directory;
}

const allowed = (directory: string) => ({
  id: 'app',
  directory,
  repository: null,
  argument: directory,
  network: false,
});

/** What is found about an app, without the place of its `app.json`. */
async function found(
  more: object,
  files: Readonly<Record<string, string>> = {},
  executable: readonly string[] = [],
) {
  const directory = await appWith(more, files);
  for (const each of executable) chmodSync(path.join(directory, each), 0o755);
  const { PATH } = process.env;
  const { apps, engineProblem } = await lookAtApps(
    [allowed(directory)],
    ['no-such-engine'],
    { PATH },
    'python',
  );
  const plain = (lines: readonly string[] = []) =>
    lines.map((line) => line.replace(`${directory}/app.json, line 1: `, '').replaceAll(directory, '.'));
  const [app] = apps;
  return {
    engineProblem,
    problems: plain(app?.problems),
    warnings: plain(app?.warnings),
    missing: plain(app?.missing),
  };
}

const fine = { problems: [], warnings: [], missing: [], engineProblem: null };

test('An app of the engine needs the engine, and one with a command does not', async () => {
  expect(await found({ command: ['true'] })).toEqual(fine);
  expect(await found({})).toEqual({
    ...fine,
    engineProblem:
      "There is no program 'no-such-engine', the engine that runs app: install it, or name it with --engine",
  });
  const directory = await appWith({});
  const { engineProblem } = await lookAtApps(
    [allowed(directory)],
    ['sh'],
    { PATH: process.env.PATH },
    'files',
  );
  expect(engineProblem).toBeNull();
});

test.each([{}, { command: ['true'] }])(
  'An app with %j is reported with the checkpoints that it names and lacks',
  async (more) => {
    const { missing } = await found({ ...more, models: ['w.pt', 'gone.pt'] }, { 'w.pt': '' });
    expect(missing).toEqual(['models.1: the file gone.pt is not there']);
  },
);

test.each([
  // A fine app has none of these.
  [{ command: ['true'], author: 'a', url: 'b', $schema: 'c', version: 1, licence_of_ours: 1 }, []],
  // Words that are parts of known ones.
  [{ command: ['true'], name: 'x', size: 1 }, []],
  [
    { command: ['true'], inputs_evaluations: { D: { 'e.yml': { A: { ...volume, volume_typ: 1 } } } } },
    ["inputs_evaluations.D.e.yml.A.volume_typ: there is no such field; did you mean 'volume_type'?"],
  ],
  [
    {
      command: ['true'],
      inputs: { A: { ...volume, volume_type: 'segmentation' }, B: { ...volume, volume_type: 'TABLE' } },
    },
    ["inputs.A.volume_type: 'segmentation' takes files of every kind; did you mean 'SEGMENTATION'?"],
  ],
  // KonfAI's engine may know other kinds, and reads numbers as texts.
  [{ inputs: { A: { ...volume, volume_type: 'VOLUMES' } }, tta: '4' }, []],
  [
    { command: ['true'], tta: '4', patch_size: null, models: null },
    ['tta: expected number, received string'],
  ],
])('An app with %j is reported with its probable mistakes', async (more, warnings) => {
  expect((await found(more, { 'e.yml': '' })).warnings).toEqual(warnings);
});

test.each([
  [
    { command: ['venv/bin/python', 'main.py'] },
    { 'main.py': '', 'requirements.txt': '' },
    [
      "command.0: there is no program 'venv/bin/python' that can be run; run 'python3 -m venv venv && venv/bin/python -m pip install -r requirements.txt' in '.'",
    ],
  ],
  [
    { command: ['venv/bin/python', 'main.py'] },
    { 'main.py': '' },
    ["command.0: there is no program 'venv/bin/python' that can be run"],
  ],
  [
    { command: ['sh', '-e', 'gone.sh'] },
    {},
    ["command.2: there is no file 'gone.sh' in the app's directory"],
  ],
  [{ command: ['sh', '-e', 'main.sh', 'for-the-script.py'] }, { 'main.sh': '' }, []],
  [{ command: ['sh', 'of-the-path', 'gone.py'] }, {}, []],
] as const)('An app with %j and the files %j cannot be run: %j', async (more, files, problems) => {
  expect((await found(more, files)).problems).toEqual(problems);
});

test('Files that an app names and lacks are reported with their places in app.json', async () => {
  const evaluations = { Dice: { 'Dice.yml': { A: volume }, 'Other.yml': { A: volume } } };
  const more = { command: ['true'], models: ['a.pt', 'b', 'c.pt'], inputs_evaluations: evaluations };
  expect((await found(more, { 'w/a.pt': '', 'b.pt': '', 'Dice.yml': '' })).missing).toEqual([
    'models.2: the file c.pt is not there',
    'inputs_evaluations.Dice.Other.yml: the file Other.yml is not there',
  ]);
});

test('Words of a command that are files of the app are made absolute, and no others', async () => {
  const command = ['sh', 'main.sh', '../outside', 'gone.sh', '.', 'sub'];
  const directory = await appWith(
    { command, resident: true, shared: true },
    { 'main.sh': '', '../outside': '', 'sub/x': '' },
  );
  const at = (name: string) => path.join(directory, name);
  expect(ownProgram(directory)).toEqual({
    command: ['sh', at('main.sh'), '../outside', 'gone.sh', '.', at('sub')],
    isResident: true,
    isShared: true,
  });
  expect(staysLoaded(directory)).toBe(true);
  const plain = await appWith({ command: ['true'] });
  expect([ownProgram(plain), staysLoaded(plain)]).toEqual([
    { command: ['true'], isResident: false, isShared: false },
    false,
  ]);
  expect([ownProgram(await appWith({})), staysLoaded(await place())]).toEqual([null, false]);
  expect([
    isAppDirectory(plain),
    isAppDirectory(path.dirname(plain)),
    isAppDirectory(`${plain}/app.json`),
  ]).toEqual([true, false, false]);
});
