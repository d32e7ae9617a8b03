import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { makeEnvironment } from '../../src/cli/apps/app-environment.js';
import { firstSteps, initApp } from '../../src/cli/apps/init.js';
import {
  channelInputs,
  checkCheckpoint,
  colourOf,
  inSentences,
  namesInFolder,
} from '../../src/cli/apps/model-app.js';
import type { NewApp } from '../../src/cli/apps/new-app.js';
import { runOnEnd } from '../../src/cli/submit/on-end.js';
import { CommandIo } from '../../src/cli/terminal/index.js';
import type { Reporter } from '../../src/client/reporter.js';
import { plant, temporary } from '../support/temporary.js';

async function place(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  await plant(root.path, files);
  return root.path;
}

const io = () => {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  return new CommandIo({ ...streams, env: { PATH: process.env.PATH } });
};

test('Labels have colours that differ, and are the same each time', () => {
  expect([0, 1, 2, 3, 4].map(colourOf)).toEqual(['#d66851', '#2bb66a', '#ce8be4', '#d1d651', '#2b87b6']);
  expect(new Set(Array.from({ length: 120 }, (_, at) => colourOf(at))).size).toBe(120);
});

test('The description of an app has each fact as a sentence', () => {
  const facts = ['A network', '', ' Segments the liver! ', 'Which one?\n', 'v1.0 of a network'];
  expect(inSentences(facts)).toBe('A network. Segments the liver! Which one? v1.0 of a network.');
});

test('Each channel of a network is a group of inputs, in its order', () => {
  const input = { volume_type: 'VOLUME', required: true };
  expect(Object.entries(channelInputs(['T1', 'CT'], (name) => name === 'CT'))).toEqual([
    ['Channel_0', { display_name: 'T1', ...input }],
    ['Channel_1', { display_name: 'CT', ...input, unit: 'HU' }],
  ]);
});

test('A file, or a folder that does not exist, is refused with what to name instead', async () => {
  const root = await place({ 'a/one': '', 'a/two': '' });
  const file = path.join(root, 'a/one');
  expect(namesInFolder(path.join(root, 'a'), () => '').sort()).toEqual(['one', 'two']);
  expect(() => namesInFolder(file, () => 'is an archive: unpack it')).toThrow(
    `'${file}' is an archive: unpack it`,
  );
  expect(() => namesInFolder(path.join(root, 'b'), () => '')).toThrow(
    `'${path.join(root, 'b')}' is not a folder that can be read: no such file or directory (ENOENT)`,
  );
});

test('A checkpoint has the beginning and the end of an archive', async () => {
  const root = await place();
  const faultIn = (file: string) => {
    try {
      checkCheckpoint(file);
      return null;
    } catch (cause) {
      return (cause as Error).message.replace(/^.* cannot be used: /, '');
    }
  };
  const faultOf = (content: string) => {
    const file = path.join(root, 'model.pt');
    writeFileSync(file, content, 'latin1');
    return faultIn(file);
  };
  const [start, end] = ['PK\x03\x04', `PK\x05\x06${'\0'.repeat(18)}`];
  expect(faultOf(`${start}${'w'.repeat(300)}${end}`)).toBeNull();
  expect(faultOf(start + end)).toBeNull();
  expect(faultOf(`${start}${'w'.repeat(300)}`)).toBe('its end is missing: copy it again');
  expect(faultOf(`${start}${end}.`)).toBe('its end is missing: copy it again');
  expect(faultOf(start)).toBe('its end is missing: copy it again');
  expect(faultOf(`\x80\x02}q${end}`)).toBe('it is not a checkpoint of PyTorch');
  expect(faultOf('version https://git-lfs.github.com/spec/v1\noid')).toBe(
    "it is a pointer of Git LFS: run 'git lfs pull' where it comes from",
  );
  for (const fault of [faultOf(''), faultIn(path.join(root, 'none.pt'))])
    expect(fault).toBe('it is empty, or cannot be read');
});

test.each([
  [{ source: 'results' }, 'Say with --from what results is: --from nnunet results'],
  [
    { from: 'nnunet', source: 'a', language: 'shell' },
    'An app --from nnunet is in Python: leave --language out',
  ],
  [
    { from: 'totalsegmentator', source: 'a b' },
    "--from totalsegmentator takes no 'a b': name a task with --task, or a folder of weights that you have with --weights",
  ],
  [{ from: 'nnunet', source: 'a', task: 'total' }, '--task is for --from totalsegmentator: leave it out'],
  [
    { from: 'monai-bundle', source: 'a', weights: 'w' },
    '--weights is for --from totalsegmentator: leave it out',
  ],
  [
    { from: 'monai-bundle' },
    '--from monai-bundle takes two names, the new app and the folder of the network: init APP --from monai-bundle FOLDER',
  ],
] as const)('init refuses %j', async (words, refusal) => {
  const request = { directory: '/nowhere', language: 'python', resident: false, ...words } as const;
  await expect(initApp(request, '/nowhere', io())).rejects.toThrow(refusal);
});

test('A new app is announced with its files and the next steps', async () => {
  const root = await place();
  const directory = path.join(root, 'my app');
  const here = path.relative('', directory);
  const app = { directory, language: 'python', resident: false, files: ['app.json', 'main.py', 'README.md'] };
  const told = (more: object, hasEnvironment = false) =>
    firstSteps({ ...app, ...more } as unknown as NewApp, hasEnvironment, 'remote-app');
  expect(told({})).toEqual([
    `Wrote app.json, main.py, README.md in ${directory}`,
    "Your model goes into 'predict' of main.py, and what it takes into app.json. Until then the app copies any file:",
    `  python3 '${here}/main.py' infer '${here}' --output Output --inputs "$PWD/FILE"`,
    `  remote-app serve --apps '${here}'          # then, in another terminal:`,
    '  remote-app infer FILE',
  ]);
  expect(told({ resident: true })[1]).toContain("'load' and 'predict' of main.py");
  const model = { weights: 'missing', missing: ['fold_0', 'fold_1'], notes: ['one file is left out'] };
  expect(told({ files: ['app.json', 'model/a', 'model/b'], model })).toEqual([
    `Wrote app.json, model/ in ${directory}`,
    `The weights fold_0, fold_1 are missing: 'python3 main.py fetch' in '${here}' downloads them.`,
    'Note: one file is left out',
    "Its Python is 'python3' of the PATH, which needs requirements.txt; init --venv makes one for this app. What to do next:",
    `  remote-app check '${here}' --time-limit 10m`,
    `  remote-app serve --apps '${here}'          # then, in another terminal:`,
    '  remote-app infer SCAN',
  ]);
  const linked = told({ model: { weights: 'linked', missing: [], notes: [] } }, true);
  expect(linked.slice(1, 3)).toEqual([
    'The weights are linked.',
    'Its Python is venv/bin/python. What to do next:',
  ]);
  expect(told({ directory: process.cwd(), model })[4]).toBe('  remote-app check . --time-limit 10m');
});

/** Makes an environment with a Python that does this. */
async function environment(script: string, fetches: boolean) {
  const root = await place({
    'bin/python3': `#!/bin/sh\n${script}\n`,
    'app/main.py': '',
    'app/requirements.txt': 'monai\n',
  });
  chmodSync(path.join(root, 'bin/python3'), 0o755);
  const told: (string | null)[] = [];
  const reporter = {
    running: (isRunning: boolean) => told.push(isRunning ? 'begins' : 'ends'),
    waiting: (what: string | null) => told.push(what),
    note: () => {},
  } as unknown as Reporter;
  const directory = path.join(root, 'app');
  const PATH = `${path.join(root, 'bin')}:${process.env.PATH}`;
  const error = await makeEnvironment(directory, 'monai-bundle', fetches, { PATH }, reporter).then(
    () => null,
    (cause: Error) => cause.message.replaceAll(root, ''),
  );
  return { error, told };
}

const makesItself = 'case "$*" in *venv*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python";;';

test('An environment is made in three steps, the last of which downloads what is missing', async () => {
  const script = `${makesItself} *pip*) printf 'Collecting a\\r\\n\\n  Collecting b\\n';; *) echo fetched;; esac`;
  const packages = 'Installing the packages of requirements.txt';
  const steps = ['begins', 'Making the environment', 'begins', packages];
  const lines = [`${packages}: Collecting a`, `${packages}: Collecting b`];
  expect(await environment(script, false)).toEqual({ error: null, told: [...steps, ...lines, 'ends', null] });
  const fetched = ['begins', 'Downloading the weights', 'Downloading the weights: fetched'];
  expect((await environment(script, true)).told).toEqual([...steps, ...lines, ...fetched, 'ends', null]);
});

test('The output of a step is shown line by line, however it is split', async () => {
  // Longer than what a pipe hands over at once.
  const { told } = await environment(
    `${makesItself} *pip*) printf 'Begin%0100000dEnd\\nNext\\nunended' 0;; esac`,
    false,
  );
  const [long, next, ...others] = told.slice(4, -2);
  expect(long).toMatch(/^Installing the packages of requirements\.txt: Begin0{50}/);
  expect([next, others]).toEqual(['Installing the packages of requirements.txt: Next', []]);
});

test('A failed step reports what the app lacks, and the command that completes it', async () => {
  const fails = (what: string) => `${makesItself} *fetch*) ${what};; esac`;
  const failed = await environment(fails('echo one; echo two; exit 4'), true);
  expect(failed.error).toBe(
    "The app is written, and its weights are not all there: /app/venv/bin/python main.py fetch ended with exit code 4: two; run 'venv/bin/python main.py fetch' in '/app'",
  );
  expect(failed.told.slice(-2)).toEqual(['ends', null]);
  expect((await environment(fails('kill -9 $$'), true)).error).toContain('was ended by SIGKILL; run ');
  expect((await environment(fails('exit 4'), false)).error).toBeNull();
});

test.each([
  ['true', null],
  ['exit 3', 'exit code 3'],
  ['kill -9 $$', 'ended by SIGKILL'],
])('The command of --on-end that does %j fails with %j', async (command, failure) => {
  const ended = { command: 'infer', exit_code: 0, seconds: 1, app: null, job_id: null, cases: null };
  expect(await runOnEnd(command, ended, io())).toBe(failure);
});

test.each([
  [0, 'done'],
  [1, 'failed'],
  [2, 'failed'],
  [130, 'interrupted'],
])('The command of --on-end gets exit code %d as %j', async (exit_code, status) => {
  const file = path.join(await place(), 'told.json');
  const ended = { command: 'infer', exit_code, seconds: 1.5, app: 'a', job_id: null, cases: null };
  const { env, stderr } = io();
  expect(await runOnEnd('cat > "$TOLD"', ended, { env: { ...env, TOLD: file }, stderr })).toBeNull();
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ ...ended, status });
});
