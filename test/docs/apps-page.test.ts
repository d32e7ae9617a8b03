import { cpSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { operationNames, operationOf, outputArgument } from '../../src/contract/operations.js';
import { jobMarker } from '../../src/runner/index.js';
import { appManifestSchema } from '../../src/server/apps/manifest-schema.js';
import { gpuEnvironment } from '../../src/server/executors/index.js';
import { appVariables, refusalVariables } from '../../src/server/jobs/job-directory.js';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const root = (file: string): string => fileURLToPath(new URL(`../../${file}`, import.meta.url));
const read = (file: string): string => readFileSync(root(file), 'utf8');
const page = read('docs/apps.md');
const reference = read('docs/app-reference.md');
const schema = JSON.parse(read('docs/app.schema.json'));

/** The only block of the page in this language. */
function block(language: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))];
  expect(blocks.length, language).toBe(1);
  return blocks[0]?.[1] ?? '';
}

test('The app.json of the example, and that of the example app, fit the schema', () => {
  for (const text of [
    block('json'),
    read('examples/apps/tissue/app.json'),
    read('examples/apps/brain/app.json'),
  ]) {
    const manifest = JSON.parse(text);
    z.fromJSONSchema(schema).parse(manifest);
    expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(Object.keys(manifest)));
  }
});

test.skipIf(lacks('python3'))('The example runs on a GPU and on the CPU, with its parameters', async () => {
  await using cli = await Cli.create();
  const manifest = block('json').replace('"venv/bin/python"', '"python3"');
  expect(manifest).toContain('python3');
  await plant(cli.directory, {
    'liver/app.json': manifest,
    'liver/main.py': block('python'),
    'liver/fold_0.onnx': '0',
    'liver/fold_1.onnx': '0.4',
    'ct.nii': '0.4',
    'four.nii': '2',
    'text.nii': 'text',
  });
  // Stand-ins for the packages that it imports.
  cpSync(root('test/fixtures/python'), path.join(cli.directory, 'liver'), { recursive: true });
  await using server = await TestServer.start({
    runners: true,
    apps: [path.join(cli.directory, 'liver')],
    gpus: 2,
  });
  const env = { REMOTE_APP_SERVER: server.url };
  const label = (): string => readFileSync(path.join(cli.directory, 'Result/ct.nii'), 'utf8');
  for (const [words, printed, marked] of [
    [['--gpu', '1'], 'Loaded fold_0.onnx with CUDAExecutionProvider', '0'],
    [['--cpu', '1'], 'Loaded fold_0.onnx with CPUExecutionProvider and 1 threads', '0'],
    [['--set', 'threshold=0.3'], 'Checkpoints: fold_0.onnx\n', '1'],
    [['--ensemble', '2'], 'Checkpoints: fold_0.onnx fold_1.onnx', '1'],
    [['--ensemble-models', 'fold_1.onnx'], 'Checkpoints: fold_1.onnx', null],
  ] as const) {
    const { code, stdout, stderr } = await cli.run(
      ['infer', 'ct.nii', ...words, '-o', 'Result', '--force'],
      env,
    );
    expect([code, stdout], stderr).toEqual([0, expect.stringContaining(printed)]);
    if (marked !== null) expect(label()).toBe(marked);
  }
  for (const [file, sentence] of [
    ['four.nii', 'four.nii has 4 dimensions'],
    ['text.nii', 'text.nii cannot be read as NIfTI'],
  ] as const) {
    const { code, stderr } = await cli.run(['infer', file], env);
    expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
  }
});

test('Every field of app.json has a row, and the schema describes each', () => {
  const fields = Object.keys(appManifestSchema.shape);
  expect(Object.keys(schema.properties)).toEqual(['$schema', ...fields]);
  for (const field of ['$schema', ...fields]) {
    expect(reference).toMatch(new RegExp(`^\\| \`${field.replace('$', '\\$')}\` \\|`, 'm'));
    expect(schema.properties[field].description).toBeTruthy();
  }
});

test('Every operation and every flag of the command line is described', () => {
  for (const operation of operationNames.map(operationOf)) {
    expect(reference).toMatch(new RegExp(`^\\| \`${operation.verb}\` \\|`, 'm'));
    for (const { argument = outputArgument } of operation.fields)
      expect(reference).toMatch(new RegExp(`\`${argument}\\b`));
  }
});

test('Every environment variable of a job is described', () => {
  const gpus = Object.keys(gpuEnvironment({ gpus: [0], gpuUuids: [] }));
  for (const name of [...gpus, ...refusalVariables, jobMarker, 'TMPDIR', ...Object.keys(appVariables)]) {
    expect(reference).toMatch(new RegExp(`^\\| \`${name}\` \\|`, 'm'));
  }
});
