import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobEnvelope } from '../../../src/contract/job.js';
import { steps } from '../../support/form.js';
import { requestHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { sha256, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';
import { zipOf } from '../../support/zip.mjs';

const server = sharedServer({ flags: ['--max-file-size', '4MiB', '--max-upload-size', '6MiB'] });
const { api } = server;
const tus = new Tus(api);

const submit = (body: unknown, operation = 'infer', headers: Readonly<Record<string, string>> = {}) =>
  api.fetch(`/apps/probe/${operation}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
  });

async function accepted(body: object, operation = 'infer'): Promise<JobEnvelope> {
  const response = await submit(body, operation);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as JobEnvelope;
}

async function refused(body: unknown, headers?: Readonly<Record<string, string>>): Promise<[number, string]> {
  const response = await submit(body, 'infer', headers);
  return [response.status, ((await response.json()) as { detail: string }).detail];
}

const named = async (content: string | Uint8Array<ArrayBuffer>, name: string) => ({
  upload: await tus.send(content),
  name,
});

/** The files of a job's input that waits for its gate, with their contents. */
function inputOf(id: string): Record<string, string> {
  const root = path.join(server.jobDirectory(id), 'Input');
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((entry) => statSync(path.join(root, entry)).isFile())
    .sort();
  return Object.fromEntries(files.map((file) => [file, readFileSync(path.join(root, file), 'utf8')]));
}

/** A job that runs until the test ends, so that its input stays. */
async function held(body: object): Promise<JobEnvelope> {
  const gate = server.gate();
  const { options } = steps(`wait=${gate.path}`);
  return await accepted({ ...body, options: JSON.parse(options) });
}

test('A job gets the files that its submission names, in their groups, by their names', async () => {
  const [ct, mr] = [await named('of ct', 'ct.nii.gz'), await named('of mr', 'dir/mr.nii.gz')];
  const again = { ...ct, name: 'ct.nii.gz' };
  const { job_id: id, accepted_options } = await held({
    inputs: [[ct, mr, again], [mr]],
    tag: 'a tag',
    cpu: 1,
  });
  expect(accepted_options).toEqual(['config_overrides']);
  expect(inputOf(id)).toEqual({
    'inputs/g0/ct.nii.gz': 'of ct',
    'inputs/g0/ct_1.nii.gz': 'of ct',
    'inputs/g0/mr.nii.gz': 'of mr',
    'inputs/g1/mr.nii.gz': 'of mr',
  });
  expect(await api.job(id)).toMatchObject({
    tag: 'a tag',
    inputs: ['ct.nii.gz', 'mr.nii.gz', 'ct.nii.gz', 'mr.nii.gz'],
  });
});

test('A flat list is one group, and a directory is its archive', async () => {
  const series = await named(zipOf({ '1.dcm': 'one', 'sub/2.dcm': 'two' }), 'series.konfaidir.zip');
  const { job_id: id } = await held({ inputs: [series, await named('x', 'x.nii')] });
  expect(inputOf(id)).toEqual({
    'inputs/g0/series/1.dcm': 'one',
    'inputs/g0/series/sub/2.dcm': 'two',
    'inputs/g0/x.nii': 'x',
  });
  // The upload is still there for the next submission.
  expect(await tus.head(series.upload)).toMatchObject({ status: 200 });
});

test('A series that was extracted before is the input of each job that names it', async () => {
  const large = 'v'.repeat(1 << 20);
  const series = await named(zipOf({ '1.dcm': large, 'sub/2.dcm': 'two' }), 'series.konfaidir.zip');
  for (const inputs of [[series], [series, series], [series]]) {
    const { job_id: id } = await held({ inputs });
    await api.reaches(id, 'running');
    const names = inputs.map((_, at) => (at === 0 ? 'series' : `series_${at}`));
    expect(inputOf(id)).toEqual(
      Object.fromEntries(
        names.flatMap((name) => [
          [`inputs/g0/${name}/1.dcm`, large],
          [`inputs/g0/${name}/sub/2.dcm`, 'two'],
        ]),
      ),
    );
    writeFileSync(path.join(server.jobDirectory(id), 'Input/inputs/g0/series/1.dcm'), 'changed');
    await api.kill(id);
    await api.ended(id);
  }
});

test('A submission of uploads takes the same values and archives as a form', async () => {
  const dataset = await named(zipOf({ 'a.nii': 'a' }), 'set.zip');
  const { job_id: id } = await accepted({ dataset, epochs: 3, cpu: '1', lr: null }, 'fine_tune');
  const { view } = await api.ended(id);
  expect(view).toMatchObject({ status: 'done', operation: 'fine_tune' });
});

test('An app that modifies its input does not modify the upload', async () => {
  const content = 'v'.repeat(2 << 20);
  const file = await named(content, 'large.nii');
  const { job_id: id } = await held({ inputs: [file] });
  await api.reaches(id, 'running');
  const input = path.join(server.jobDirectory(id), 'Input/inputs/g0/large.nii');
  writeFileSync(input, 'changed', { flag: 'r+' });
  const { job_id: next } = await held({ inputs: [file] });
  expect(Object.values(inputOf(next))).toEqual([content]);
});

test('An upload that is removed remains the input of a job that used it', async () => {
  const content = 'w'.repeat(2 << 20);
  const file = await named(content, 'large.nii');
  const { job_id: id } = await held({ inputs: [file] });
  expect((await tus.remove(file.upload)).status).toBe(204);
  await api.reaches(id, 'running');
  expect(Object.values(inputOf(id))).toEqual([content]);
});

test('Missing and incomplete uploads are named, and the same key is accepted once they are sent', async () => {
  const there = await named('there', 'a.nii');
  await tus.begin('half of it', 'half');
  const missing = ['half of it', 'never 1', 'never 2', 'never 3'].map(sha256);
  const body = { inputs: [there, ...missing.map((upload) => ({ upload, name: 'b.nii' }))] };
  const key = { 'Idempotency-Key': 'one submission' };
  const response = await submit(body, 'infer', key);
  expect(response.status).toBe(409);
  const told = (await response.json()) as { detail: string };
  expect(told).toMatchObject({ uploads: missing });
  expect(told.detail).toMatch(/ and 1 more; send them/);
  await tus.patch(sha256('half of it'), 4, ' of it');
  for (const content of ['never 1', 'never 2', 'never 3']) await tus.send(content);
  const first = (await (await submit(body, 'infer', key)).json()) as JobEnvelope;
  expect((await (await submit(body, 'infer', key)).json()) as JobEnvelope).toEqual(first);
});

const x = { upload: sha256('x'), name: 'x.nii' };

test.for<[string, unknown, number, RegExp]>([
  ['no files', { inputs: [] }, 422, /inputs.*required/],
  ['no field of files', { tag: 'x' }, 422, /inputs.*required/],
  ['an empty group', { inputs: [[x], []] }, 422, /inputs_groups.*at least 1/],
  ['a name that is no hash', { inputs: [{ upload: '../etc', name: 'x' }] }, 422, /inputs.*SHA-256/],
  ['a file without a name', { inputs: [{ upload: x.upload }] }, 422, /inputs/],
  [
    'a name that is too long',
    { inputs: [{ ...x, name: 'n'.repeat(4097) }] },
    422,
    /inputs.*name is too long: 'nnn/,
  ],
  [
    'too many files',
    { inputs: Array(20_001).fill(x) },
    413,
    /more than 20000 files; send them as one archive named '<name>/,
  ],
  [
    'too many fields',
    Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`f${at}`, 1])),
    413,
    /1000/,
  ],
  ['too many texts', { inputs: [x], gpu: Array(1001).fill('') }, 413, /more than 1000 fields/],
  ['long texts', { inputs: [x], tag: 'x'.repeat((1 << 20) + 1) }, 413, /texts of the submission are longer/],
  [
    'deep options',
    `{"inputs": [], "options": ${'['.repeat(60_000)}${']'.repeat(60_000)}}`,
    422,
    /options.*nested too deeply/,
  ],
  ['a name that cannot be used', { inputs: [{ ...x, name: '..' }] }, 422, /name cannot be used/],
  ['a text in place of files', { inputs: 'ct.nii' }, 422, /inputs/],
  ['files in a field of values', { inputs: [x], tta: [x] }, 422, /tta.*text, a number/],
  ['a bad number', { inputs: [x], tta: 1.5 }, 422, /tta.*integer/],
  ['a list for one value', { inputs: [x], tta: [1, 2] }, 422, /sent 2 times/],
  ['an unknown option', { inputs: [x], options: { nope: 1 } }, 422, /unknown key/],
  ['a field of another operation', { inputs: [x], epochs: 3 }, 422, /belongs to fine_tune/],
  ['a value that would be a flag', { inputs: [x], prediction_file: '--evil' }, 422, /begin with '-'/],
  ['files of another operation', { inputs: [x], gt: [x] }, 422, /gt/],
  ['a list', [x], 400, /JSON object/],
  ['half of it', '{"inputs": [', 400, /not a JSON object/],
  ['a poisoned key', '{"__proto__": {"x": 1}}', 422, /'__proto__' must be a text/],
  ['bytes that are not UTF-8', Buffer.from('{"tag": "\xe4"}', 'latin1'), 400, /not a JSON object/],
  ['deep nesting', `{"inputs": ${'['.repeat(50_000)}${']'.repeat(50_000)}}`, 422, /inputs/],
  ['deeper nesting', '['.repeat(100_000), 413, /more than 62000 names, values or lists/],
  [
    'very many names',
    JSON.stringify(Object.fromEntries(Array.from({ length: 70_000 }, (_, at) => [`f${at}`, 1]))),
    413,
    /more than 62000 names/,
  ],
  ['more than 4 MiB', `{"tag": "${'x'.repeat(4 << 20)}"}`, 413, /JSON/],
])('A submission is refused as its form would be: %s', async ([, body, status, sentence]) => {
  await tus.send('x');
  const [told, detail] = await refused(body);
  expect([told, detail]).toEqual([status, expect.stringMatching(sentence)]);
});

test('The limits of a form hold for the files that are named', async () => {
  const one = await named('a'.repeat(3 << 20), 'a.nii');
  const two = await named('b'.repeat(3 << 20).concat('b'), 'b.nii');
  expect(await refused({ inputs: [one, two] })).toEqual([413, expect.stringMatching(/limit of 6.0 MiB/)]);
});

test('Large JSON of one owner is read four at a time, and a small one at once', async () => {
  const large = JSON.stringify({ tag: 'x'.repeat(100_000) });
  const head = requestHead('POST', '/apps/probe/infer', [
    'Content-Type: application/json',
    `Content-Length: ${large.length}`,
  ]);
  const slow = await Promise.all(Array.from({ length: 4 }, () => RawConnection.open(server.url)));
  try {
    for (const connection of slow) connection.write(Buffer.concat([head, Buffer.from(large.slice(0, 9))]));
    await until('four arrive', () => readdirSync(path.join(server.dataDirectory, 'incoming')).length === 4);
    let isRead = false;
    const fifth = refused(large).finally(() => {
      isRead = true;
    });
    for (let small = 0; small < 5; small += 1)
      expect(await refused({ tag: 'x'.repeat(300) })).toEqual([422, expect.stringMatching(/tag/)]);
    expect(isRead).toBe(false);
    slow[0]?.write(large.slice(9));
    expect((await slow[0]?.answer())?.status).toBe(422);
    expect(await fifth).toEqual([422, expect.stringMatching(/tag/)]);
  } finally {
    for (const connection of slow) await connection.destroy();
  }
});

test('A body that is compressed, or neither a form nor JSON, is refused', async () => {
  const coded = { 'Content-Encoding': 'gzip' };
  expect(await refused('{}', coded)).toEqual([415, expect.stringMatching(/compressed/)]);
  expect(await refused('x', { 'Content-Type': 'text/plain' })).toEqual([
    415,
    expect.stringMatching(/multipart\/form-data, or application\/json/),
  ]);
});

test('An unknown field is ignored, and the log says so', async () => {
  const { job_id: id } = await accepted({ inputs: [await named('x', 'x.nii')], colour: 'red', nested: 1 });
  const { log } = await api.ended(id);
  expect(log).toContain("Ignored field 'colour'");
});
