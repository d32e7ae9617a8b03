import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { writeNifti } from '@remote-app/volumes';
import { beforeAll, expect, test } from 'vitest';
import { namesOfApp, type ShowOptions, showCases, showResult } from '../../../src/cli/show/show-cases.js';
import { CommandIo } from '../../../src/cli/terminal/index.js';
import { Interrupted, UsageError } from '../../../src/client/errors.js';
import { hashFile } from '../../../src/files/index.js';
import { straight } from '../../support/affine.js';
import { recordText } from '../../support/record-facts.js';
import { temporary } from '../../support/temporary.js';

const start = process.cwd();
let scan: Buffer;
let mask: Buffer;
/** Another continuous volume of the same grid. */
let other: Buffer;
/** A scan whose last slice is missing, which is found when it is drawn. */
let cut: Buffer;
beforeAll(async () => {
  await using directory = await temporary();
  const affine = straight();
  const write = async (data: Float32Array | Uint8Array) => {
    const file = path.join(directory.path, 'volume.nii');
    await writeNifti(file, { size: [6, 6, data.length / 36], affine, data });
    return readFileSync(file);
  };
  scan = await write(Float32Array.from({ length: 216 }, (_, at) => at * 1.5));
  const long = await write(Float32Array.from({ length: 36 * 40 }, (_, at) => at * 1.5));
  cut = gzipSync(long.subarray(0, -100));
  other = await write(Float32Array.from({ length: 216 }, (_, at) => 216.5 - at));
  mask = await write(Uint8Array.from({ length: 216 }, (_, at) => Number(at < 10)));
});

/** A directory with these scans, a reporter that keeps what it is told, and the streams of a command. */
async function withScans(names: readonly string[], isTerminal = false) {
  const directory = await temporary();
  for (const name of names) writeFileSync(path.join(directory.path, `${name}.nii`), scan);
  const stdout = Object.assign(new PassThrough(), isTerminal ? { isTTY: true, columns: 80, rows: 24 } : {});
  const chunks: Buffer[] = [];
  stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  const env = { NO_COLOR: '1' };
  const io = new CommandIo({ stdin: new PassThrough(), stdout, stderr: new PassThrough(), env });
  const notes: string[] = [];
  const progress: string[] = [];
  const waits: (string | null)[] = [];
  const reporter = {
    note: (text: string) => notes.push(text),
    progress: (...words: readonly unknown[]) => progress.push(words.join(' ')),
    waiting: (what: string | null) => waits.push(what),
  } as unknown as ShowOptions['reporter'];
  const { signal } = new AbortController();
  const usual = { png: null, html: null, volumes: false, force: false, slices: null, json: false };
  const options = { ...usual, frame: 1, labels: {}, io, reporter, signal };
  return {
    ...{ notes, progress, waits, options },
    place: (name: string) => path.join(directory.path, name),
    show: (more: Partial<ShowOptions> = {}) => showCases([directory.path], { ...options, ...more }),
    printed: () => Buffer.concat(chunks),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const several = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];

test('A terminal shows five cases, and says how many more there are and what draws them', async () => {
  await using it = await withScans(several, true);
  const { cases } = await it.show();
  expect(cases.map(({ name }) => name)).toEqual(several.slice(0, 5));
  expect(it.notes).toEqual([
    '2 more cases not drawn: --png or --html draws all of them, --json counts their labels',
  ]);
  expect(it.waits).toEqual(several.slice(0, 5).flatMap((name) => [`Reading ${name}`, null]));
  const text = it.printed().toString();
  for (const name of several.slice(0, 5)) expect(text).toContain(`\n${name}\n`);
});

test('Without a terminal, all cases are listed in a table, and the notes name their case', async () => {
  await using it = await withScans(several);
  writeFileSync(it.place('b_mask.nii'), mask);
  writeFileSync(it.place('z.nii'), 'not a volume');
  const { cases, problems } = await it.show();
  expect(cases.map(({ name }) => name)).toEqual(several);
  expect(problems).toEqual([expect.stringContaining('z.nii')]);
  expect(it.notes).toEqual(problems);
  expect(it.progress.slice(-8)).toEqual(Array.from({ length: 8 }, (_, at) => `Drawing ${at} 7`));
  const rows = it
    .printed()
    .toString()
    .trim()
    .split('\n')
    .map((row) => row.split(/ {2,}/).join(' | '));
  expect(rows).toEqual([
    'CASE | LABEL | VALUE | VOXELS | VOLUME',
    ...several.map((name) => (name === 'b' ? 'b | label 1 | 1 | 10 | 0.01 ml' : `${name} | - | - | - | -`)),
  ]);
});

test('A PNG is not written to a terminal, and if there is nothing to show, an error says so and no file is written', async () => {
  await using terminal = await withScans(['a'], true);
  await expect(terminal.show({ png: '-' })).rejects.toThrow(/^A PNG cannot be written to a terminal/);
  await using it = await withScans([]);
  writeFileSync(it.place('a.nii'), scan.subarray(0, 500));
  const refused = await it.show({ html: it.place('page.html') }).catch((error: unknown) => error);
  expect([refused, (refused as Error).message]).toEqual([
    expect.any(UsageError),
    expect.stringMatching(/a\.nii.*[^.]$/),
  ]);
  expect(readdirSync(it.place('.'))).toEqual(['a.nii']);
});

test('What cannot be drawn is left out, unless a table or a note mentions it', async () => {
  await using it = await withScans(['b']);
  mkdirSync(it.place('a'));
  writeFileSync(it.place('a/x.nii.gz'), cut);
  writeFileSync(it.place('c.nii.gz'), cut);
  const { cases, problems } = await it.show();
  expect(cases.map(({ name }) => name)).toEqual(['b']);
  expect(problems).toHaveLength(2);
  writeFileSync(it.place('cases.csv'), 'case,status,reason\r\na,done,\r\n');
  writeFileSync(it.place('a/result.zip'), '');
  const told = await it.show();
  expect(told.cases.map(({ name, status, notes }) => [name, status, notes])).toEqual([
    ['a', 'done', ['Its result has no volume that can be drawn']],
    ['b', null, []],
  ]);
  // The result of a scan that is not any more what it was.
  await using other = await withScans(['s']);
  mkdirSync(other.place('Out/s'), { recursive: true });
  writeFileSync(other.place('Out/s/mask.nii'), mask);
  const inputs = [{ name: 's.nii', size: scan.length, sha256: '0'.repeat(64) }];
  writeFileSync(other.place('Out/s/remote-app-record.json'), recordText({ inputs }));
  // Scans are looked for in the current directory as well.
  process.chdir(other.place('.'));
  const stale = await showCases([other.place('Out')], other.options).finally(() => process.chdir(start));
  expect(stale.cases.map(({ scan: on, mask: of, notes }) => [on, of, notes])).toEqual([
    [
      null,
      null,
      [expect.stringMatching(/^The result in .* is not drawn: its remote-app-record\.json names another/)],
    ],
  ]);
});

test('Label names come from a file, otherwise from the app, and there are none if the app does not answer', async () => {
  await using it = await withScans(['a']);
  const { reporter } = it.options;
  writeFileSync(it.place('a_mask.nii'), mask);
  const namesIn = async (labels: ShowOptions['labels']) =>
    (await it.show({ labels, json: true })).cases[0]?.labels.map(({ name }) => name);
  const file = it.place('labels.json');
  writeFileSync(file, JSON.stringify({ terminology: { 1: { name: 'of the file' } } }));
  expect(await namesIn(file)).toEqual(['of the file']);
  const terminology = { 1: { name: 'of the app', color: '#f00' } };
  const names = await namesOfApp(async () => ({ available: true, terminology }) as never, reporter);
  expect(await namesIn(names)).toEqual(['of the app']);
  for (const document of [[], 3, { liver: '1' }, { 1: 3 }, { 1: 'x'.repeat(201) }]) {
    writeFileSync(file, JSON.stringify(document));
    await expect(namesIn(file)).rejects.toThrow(
      `'${file}' does not name labels: give an app.json with a terminology, or an object such as {"1": "liver"}`,
    );
  }
  const fails = (error: Error) => namesOfApp(() => Promise.reject(error), reporter);
  expect(await fails(new UsageError('no app'))).toEqual({});
  expect(it.notes).toEqual(['Labels are shown without names: no app']);
  await expect(fails(new Interrupted('SIGINT'))).rejects.toThrow(Interrupted);
  await expect(fails(new TypeError('a fault'))).rejects.toThrow(TypeError);
});

test('Each segmentation is counted on its scan, and typed label names replace those of its record', async () => {
  await using it = await withScans([]);
  mkdirSync(it.place('Out/s'), { recursive: true });
  writeFileSync(it.place('s.nii'), scan);
  for (const name of ['one', 'two']) writeFileSync(it.place(`Out/s/${name}.nii`), mask);
  const labels = { 1: { name: 'liver', color: '#f00' } };
  const record = { inputs: [{ name: 's.nii', ...(await hashFile(it.place('s.nii'))) }], labels };
  writeFileSync(it.place('Out/s/remote-app-record.json'), recordText(record));
  writeFileSync(it.place('Out/s/sd.nii'), other);
  const { cases } = await it.show();
  const counted = [{ value: 1, name: 'liver', voxels: 10, millilitres: 0.01 }];
  const at = (name: string) => it.place(`Out/s/${name}.nii`);
  expect(cases).toEqual([
    {
      ...{ name: 's', status: null, scan: it.place('s.nii'), mask: at('one'), maps: [at('sd')] },
      labels: counted,
      layers: ['one', 'two'].map((name) => ({ name, path: at(name), labels: counted })),
      notes: [],
    },
  ]);
  const rows = it.printed().toString().trim().split('\n').slice(1);
  expect(rows.map((row) => row.split(/ {2,}/).slice(0, 2))).toEqual([
    ['s: one', 'liver'],
    ['s: two', 'liver'],
  ]);
  const typed = await it.show({ labels: { 1: { name: 'Leber', color: '#0f0' } }, json: true });
  expect(typed.cases[0]?.layers.map((layer) => layer.labels[0]?.name)).toEqual(['Leber', 'Leber']);
  // A map that cannot be read does not hide the others.
  writeFileSync(at('sd'), other.subarray(0, 400));
  const { cases: left, problems } = await it.show({ json: true });
  expect([left[0]?.layers.length, problems]).toEqual([2, [expect.stringContaining('sd.nii')]]);
});

test('Windows have the units of the record, the scan or a map, and only one of several volumes is shown', async () => {
  await using it = await withScans([], true);
  mkdirSync(it.place('Out/s'), { recursive: true });
  const affine = straight();
  const data = Float32Array.from({ length: 432 }, (_, at) => at * 1.5);
  await writeNifti(it.place('s.nii'), { size: [6, 6, 6], affine, data, frames: 2 });
  writeFileSync(it.place('Out/s/mask.nii'), mask);
  writeFileSync(it.place('Out/s/sd.nii'), other);
  const inputs = [{ name: 's.nii', ...(await hashFile(it.place('s.nii'))) }];
  const record = { inputs, units: { inputs: 'HU', outputs: 'mm' } };
  writeFileSync(it.place('Out/s/remote-app-record.json'), recordText(record));
  const { cases } = await it.show({ frame: 2 });
  expect(cases[0]?.notes).toContain('s.nii holds 2 volumes: number 2 is shown');
  const printed = it.printed().toString();
  expect(printed).toMatch(
    /s: mask\n[\s\S]*black -160, white 240 HU\n[\s\S]*s: sd\n[\s\S]*black .*, white .* mm\n/,
  );
});

test('A region that overlaps others is counted with all of its values', async () => {
  await using it = await withScans([]);
  const affine = straight();
  // 100 voxels of 1, 40 of 2, 10 of 3.
  const data = Uint8Array.from({ length: 1000 }, (_, at) => (at < 100 ? 1 : at < 140 ? 2 : at < 150 ? 3 : 0));
  await writeNifti(it.place('brats.nii'), { size: [10, 10, 10], affine, data });
  const region = (name: string, values: readonly number[]) => ({ name, color: '#f00', values });
  const labels = {
    1: region('whole tumor', [1, 2, 3]),
    2: region('tumor core', [2, 3]),
    3: region('enhancing tumor', [3]),
  };
  const { cases } = await it.show({ labels: labels as unknown as ShowOptions['labels'], json: true });
  expect(cases[0]?.labels.map(({ name, voxels, millilitres }) => [name, voxels, millilitres])).toEqual([
    ['whole tumor', 150, 0.15],
    ['tumor core', 50, 0.05],
    ['enhancing tumor', 10, 0.01],
  ]);
  expect(cases[0]?.notes).toContain(
    'Labels of brats.nii are regions that overlap: volumes count each of them whole',
  );
});

test('A result that cannot be drawn gets a note, since it is already saved', async () => {
  await using it = await withScans([]);
  writeFileSync(it.place('a.txt'), '');
  const place = { result: it.place('.'), output: it.place('.') };
  const ask = async () => ({ available: false }) as never;
  await showResult([], place, ask, it.options);
  expect(it.notes).toEqual([expect.stringMatching(/^The result cannot be drawn: /)]);
  const { signal } = Object.assign(new AbortController());
  const broken = { ...it.options, signal, io: null as unknown as CommandIo };
  await expect(showResult([], place, ask, broken)).rejects.toThrow(TypeError);
});
