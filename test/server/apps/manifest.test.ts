import { symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ManifestError, onLines, readManifest } from '../../../src/server/apps/manifest.js';
import { temporary } from '../../support/temporary.js';

const nested = (open: string, close: string, depth: number) => open.repeat(depth) + 1 + close.repeat(depth);

test('A fault in app.json is reported with the line of its value, or of the object that lacks it', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  writeFileSync(file, '{\n  "tta": "x",\n  "inputs": {\n    "Volume": {}\n  }\n}\n');
  const lines = onLines(file, [
    { path: ['tta'], problem: 'it is no number' },
    { path: ['inputs', 'Volume', 'display_name'], problem: 'it is missing' },
    { path: [], problem: 'it is an odd app' },
  ]);
  expect(lines.map(({ line }) => line)).toEqual([2, 4, 1]);
});

test('The line of a value is found regardless of what precedes it', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  const before = {
    text: '}],:\\"{[',
    'a "key"': [1, [2, { tta: 3 }], {}],
    none: null,
    long: 'x'.repeat(900_000),
  };
  writeFileSync(
    file,
    `${JSON.stringify(before).slice(0, -1)},\n"models": ["a",\n {"tta": 1},\n "b"],\n"tta": {}}`,
  );
  const paths = [
    ['a "key"', 1, 1, 'tta'],
    ['models'],
    ['models', 1, 'tta'],
    ['models', 2],
    ['tta'],
    ['tta', 'x'],
  ];
  const lines = onLines(
    file,
    paths.map((each) => ({ path: each, problem: 'it is wrong' })),
  );
  expect(lines.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5, 5]);
});

test.each([
  ['lists', '[', ']'],
  ['objects', '{"a":', '}'],
])('An app.json with too many levels of %s is reported with its line', async (_, open, close) => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  for (const depth of [100, 10_000, 100_000]) {
    writeFileSync(file, `{"more":${nested(open, close, depth)},\n"tta":1}`);
    expect(onLines(file, [{ path: ['tta'], problem: 'it is wrong' }])).toMatchObject([{ line: 2 }]);
  }
});

const least = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };

/** What an app.json with these values says. */
async function read(values: object, from?: 'repository') {
  await using root = await temporary();
  writeFileSync(path.join(root.path, 'app.json'), JSON.stringify({ ...least, ...values }));
  return readManifest(root.path, ...(from ? [from] : []));
}

test('Values are read as KonfAI reads them', async () => {
  const volume = { display_name: 3, volume_type: 'VOLUME', required: 0 };
  const manifest = await read({
    display_name: true,
    description: null,
    short_description: 1.5,
    tta: ' 4 ',
    mc_dropout: 2.9,
    inputs: { ct: volume, mr: { ...volume, required: 'no' } },
    outputs: null,
    inputs_evaluations: { Dice: { 'Evaluation.yml': { gt: { ...volume, required: null } } } },
    terminology: { 1: { name: 5, color: '#fff' } },
    models: ['a', 7],
    patch_size: [96.0, '64', true],
    parameters: null,
    command: null,
    resident: null,
    shared: null,
    task: 'segmentation',
  });
  expect(manifest).toMatchObject({
    display_name: 'true',
    description: '',
    short_description: '1.5',
    tta: 4,
    mc_dropout: 2,
    inputs: { ct: { display_name: '3', required: false }, mr: { required: true } },
    outputs: {},
    inputs_evaluations: { Dice: { 'Evaluation.yml': { gt: { required: false } } } },
    terminology: { 1: { name: '5', color: '#fff' } },
    models: ['a', '7'],
    patch_size: [96, 64, 1],
    more: { task: 'segmentation' },
  });
  for (const name of ['command', 'resident', 'shared', 'parameters'])
    expect(manifest).not.toHaveProperty(name);
  expect((await read({ patch_size: 'None' })).patch_size).toBeNull();
});

test('An app of a repository has no command, and an unusable value is reported with its place', async () => {
  const command = { command: ['true'], resident: true, shared: true };
  expect(await read(command)).toMatchObject(command);
  const { command: none, resident, shared } = await read(command, 'repository');
  expect([none, resident, shared]).toEqual([undefined, undefined, undefined]);
  const faults = async (values: object) => {
    const error = await read(values).then(
      () => null,
      (cause: unknown) => cause,
    );
    if (!(error instanceof ManifestError)) throw new Error('It can be used', { cause: error });
    return error.faults.map(({ path: keys, problem }) => [keys.join('.'), problem]);
  };
  expect(await faults({ tta: 'many', description: undefined })).toEqual([
    ['description', 'it is missing'],
    ['tta', 'expected number, received string'],
  ]);
  expect(await faults({ resident: true })).toEqual([
    ['resident', 'only a program of the app can be resident, and `command` is missing'],
  ]);
  expect(await faults({ command: ['true'], shared: true })).toEqual([
    ['shared', 'only an app that stays loaded can be shared: add `"resident": true`'],
  ]);
});

test("No content is quoted from a link to a file that is not JSON, except from a repository's cache", async () => {
  await using root = await temporary();
  writeFileSync(path.join(root.path, 'secret'), 'secret: 7');
  symlinkSync('secret', path.join(root.path, 'app.json'));
  const faultOf = (from: 'admin' | 'repository') => {
    try {
      return readManifest(root.path, from);
    } catch (cause) {
      return cause instanceof ManifestError && [cause.message, cause.faults];
    }
  };
  const why = 'it is a link to a file that is not JSON';
  expect(faultOf('admin')).toEqual([
    `app.json of this app cannot be read: ${why}`,
    [{ path: [], problem: `it cannot be read: ${why}` }],
  ]);
  expect(faultOf('repository')).toEqual([
    expect.stringMatching(/^app\.json of this app cannot be read: Unexpected token/),
    [{ path: [], problem: expect.stringMatching(/^it is not JSON: Unexpected token/), isSyntax: true }],
  ]);
});
