import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { appManifestSchema } from '../../src/contract/app-manifest.js';
import { operationNames, operationOf, outputArgument } from '../../src/contract/operations.js';
import { jobMarker } from '../../src/runner/protocol.js';
import { gpuEnvironment } from '../../src/server/executors/index.js';
import { refusalVariables } from '../../src/server/jobs/job-directory.js';

const read = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8');
const page = read('docs/apps.md');
const schema = JSON.parse(read('docs/app.schema.json'));

/** The blocks of a language in the section with this title. */
function blocks(language: string, title: string): string[] {
  const [, section = ''] = page.split(`\n## ${title}\n`);
  const [text = ''] = section.split('\n## ');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(
    ([, code = '']) => code,
  );
}
const wholeApp = 'A whole app in Python';

test('the example in Python is the program that `init` writes', () => {
  expect(blocks('python', wholeApp)).toEqual([read('templates/python/main.py')]);
});

test('its app.json, and that of the example app, fit the schema', () => {
  for (const text of [...blocks('json', wholeApp), read('examples/apps/tissue/app.json')]) {
    const manifest = JSON.parse(text);
    z.fromJSONSchema(schema).parse(manifest);
    expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(Object.keys(manifest)));
  }
});

test('every field of app.json has a row, and the schema describes each', () => {
  const fields = Object.keys(appManifestSchema.shape);
  expect(Object.keys(schema.properties)).toEqual(['$schema', ...fields]);
  for (const field of ['$schema', ...fields]) {
    expect(page).toMatch(new RegExp(`^\\| \`${field.replace('$', '\\$')}\` \\|`, 'm'));
    expect(schema.properties[field].description).toBeTruthy();
  }
});

test('every operation and every flag of the command line is described', () => {
  for (const operation of operationNames.map(operationOf)) {
    expect(page).toMatch(new RegExp(`^\\| \`${operation.verb}\` \\|`, 'm'));
    for (const { argument = outputArgument } of operation.fields)
      expect(page).toMatch(new RegExp(`\`${argument}\\b`));
  }
});

test('every environment variable of a job is described', () => {
  const gpus = Object.keys(gpuEnvironment({ gpus: [0] }));
  for (const name of [...gpus, ...refusalVariables, jobMarker, 'TMPDIR', 'PYTHONUNBUFFERED']) {
    expect(page).toMatch(new RegExp(`^\\| \`${name}\` \\|`, 'm'));
  }
});
