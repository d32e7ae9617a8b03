import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { completeResult, type EndedCase, makeRecord } from '../../../src/client/case/complete-result.js';
import { computationOf, digestOf, keyOf } from '../../../src/client/case/computation.js';
import { type Conversion, readRecord } from '../../../src/client/case/index.js';
import { hashInputs, hashOutputs, withNames, writeRecord } from '../../../src/client/case/record.js';
import type { FoundFiles } from '../../../src/client/found-files.js';
import { recordName } from '../../../src/client/output-names.js';
import { operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { silentCase, silentRecord } from '../../support/record-facts.js';
import { plant, temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';

const submission = {
  operation: operationOf('infer'),
  app: 'tissue',
  fields: {},
  options: {},
  files: [],
  archive: null,
};
const input = { name: 'ct.nii', size: 3, sha256: 'a'.repeat(64), field: 'inputs', group: 0 };

const view = {
  app: 'tissue',
  available: true,
  version: 'sha256:1',
  display_name: 'Tissue',
  checkpoints_name: ['a.pt', 'b.pt'],
} as Parameters<typeof computationOf>[1];

/** The key of a submission that differs in these fields and options. */
const keyWith = (fields: Record<string, string>, options: Record<string, number> = {}, described = view) =>
  keyOf(computationOf({ ...submission, fields, options }, described, null, '1'), digestOf([input]));

test('The key covers exactly the options that change the result', () => {
  const plain = keyWith({});
  for (const same of [
    { tta: '0' },
    { gpu: '0' },
    { cpu: '4' },
    { keep: '60' },
    { tag: 'x' },
    { quiet: 'true' },
    { time_limit: '9' },
  ])
    expect(keyWith(same), JSON.stringify(same)).toBe(plain);
  const others = [
    keyWith({ tta: '4' }),
    keyWith({ mc: '2' }),
    keyWith({ uncertainty: 'true' }),
    keyWith({ ensemble_models: 'a.pt' }),
    keyWith({ prediction_file: 'Other.yml' }),
    keyWith({}, { batch_size: 2 }),
    keyWith({}, {}, { ...view, version: 'sha256:2' } as typeof view),
    keyOf(computationOf(submission, view, null, '1'), digestOf([{ ...input, sha256: 'b'.repeat(64) }])),
    keyOf(computationOf(submission, view, null, '1'), digestOf([{ ...input, name: 'mr.nii' }])),
    keyOf(computationOf(submission, view, null, '1'), digestOf([{ ...input, group: 1 }])),
    keyOf(computationOf(submission, view, null, '1'), digestOf([{ ...input, field: 'gt' }])),
    keyWith({}, {}, { ...view, checkpoints_name: ['a.pt'] } as typeof view),
    keyOf(computationOf(submission, view, { mode: 'names', allowed: [] }, '1'), digestOf([input])),
    ...[[], ['burned-in']].map((allowed) =>
      keyOf(computationOf(submission, view, { mode: 'full', allowed }, '1'), digestOf([input])),
    ),
  ];
  expect(new Set([plain, ...others]).size).toBe(1 + others.length);
});

test('Inputs are recorded with their fields and groups, and outputs without the record and the log', async () => {
  await using directory = await temporary();
  await plant(directory.path, {
    'a.nii': 'a',
    'b.nii': 'bb',
    'out/x.nii': 'x',
    'out/log': 'x',
    [`out/${recordName}`]: '{}',
    'out/sub/log': 'l',
    [`out/sub/${recordName}`]: 'r',
  });
  const unit = (name: string) => ({
    kind: 'file',
    name: `1_${name}`,
    path: path.join(directory.path, name),
    size: 1,
  });
  const volumes = [
    { field: { name: 'inputs' }, groups: [[unit('a.nii')], [unit('b.nii')]] },
    { field: { name: 'gt' }, groups: [[unit('a.nii')]] },
  ];
  const inputs = await hashInputs({ volumes } as unknown as FoundFiles);
  const hash = (text: string) => createHash('sha256').update(text).digest('hex');
  expect(inputs).toEqual([
    { name: '1_a.nii', size: 1, sha256: hash('a'), field: 'inputs', group: 0 },
    { name: '1_b.nii', size: 2, sha256: hash('bb'), field: 'inputs', group: 1 },
    { name: '1_a.nii', size: 1, sha256: hash('a'), field: 'gt', group: 0 },
  ]);
  expect(await hashOutputs(path.join(directory.path, 'out'), undefined, 'log')).toEqual([
    { name: 'sub/log', size: 1, sha256: hash('l') },
    { name: `sub/${recordName}`, size: 1, sha256: hash('r') },
    { name: 'x.nii', size: 1, sha256: hash('x') },
  ]);
});

test("A record has the unit of the app's images if they all share one", () => {
  const volume = (unit?: string, type = 'VOLUME') => ({ display_name: 'x', volume_type: type, unit });
  const unitsOf = (inputs: object, outputs: object, name: 'infer' | 'uncertainty' = 'infer') => {
    const app = { ...view, inputs, outputs } as typeof view;
    return computationOf({ ...submission, operation: operationOf(name) }, app, null, '1').units;
  };
  const [hu, mask] = [volume('HU'), volume(undefined, 'SEGMENTATION')];
  expect(unitsOf({ CT: hu }, { CT: hu, Mask: mask })).toEqual({ inputs: 'HU', outputs: 'HU' });
  expect(unitsOf({ MR: volume(), CT: hu }, { Mask: mask })).toEqual({ inputs: null, outputs: null });
  expect(unitsOf({ MR: volume('a.u.') }, { CT: hu })).toEqual({ inputs: 'a.u.', outputs: 'HU' });
  expect(unitsOf({ MR: volume('a.u.'), CT: hu }, { CT: volume('u'.repeat(30)) })).toEqual({
    inputs: null,
    outputs: 'u'.repeat(20),
  });
  expect(unitsOf({ CT: hu }, { CT: hu }, 'uncertainty')).toEqual({ inputs: 'HU', outputs: null });
});

test('A record is read as it was written, and its key has the version that the job ran', async () => {
  await using directory = await temporary();
  await plant(directory.path, { 'mask.nii': 'mask', 'sub/x.json': '{}' });
  const outputs = await hashOutputs(directory.path);
  expect(outputs.map(({ name, size }) => [name, size])).toEqual([
    ['mask.nii', 4],
    ['sub/x.json', 2],
  ]);
  const app = {
    ...view,
    repository: { name: 'lab/tissue' },
    terminology: { 1: { name: 'Liver', color: '#eb8' } },
  } as unknown as typeof view;
  const computation = computationOf(submission, app, null, '1.2.3');
  const ended = {
    sent: { ...computation, inputs: [input], inputs_remarks: ['It lacks a slice'] },
    job: {
      version: 'sha256:2',
      assigned_gpus: [1, 7],
      // The server was away when it ended.
      started_at: '2026-01-01T00:00:00Z',
      finished_at: '2026-01-01T01:00:00Z',
      created_at: '2025-12-31T23:00:00Z',
      run_seconds: 2.12345,
    },
    server: { address: 'http://x', version: '1.2.4', devices: new Map([[1, 'NVIDIA H100']]) },
  } as unknown as EndedCase;
  const made = (more: Partial<EndedCase> = {}) =>
    makeRecord({ ...ended, ...more }, '0123456789ab', 'remote-app-log.txt');
  const record = { ...made(), outputs, numbers: { dice: 0.5 }, numbers_unread: ['One is not read'] };
  writeRecord(directory.path, record);
  expect(readRecord(directory.path)).toEqual(record);
  expect(record).toEqual({
    GeneratedBy: [
      {
        Name: 'tissue',
        Version: 'sha256:2',
        Description: 'Tissue',
        CodeURL: 'https://huggingface.co/lab/tissue',
      },
      { Name: 'remote-app', Version: '1.2.3' },
    ],
    key: keyWith({}, {}, { ...view, version: 'sha256:2' } as typeof view),
    operation: 'infer',
    app: 'tissue',
    app_version: 'sha256:2',
    options: computation.options,
    inputs: [input],
    inputs_remarks: ['It lacks a slice'],
    outputs,
    deidentified: null,
    case: null,
    edited: [],
    stamps: { inputs: null, outputs: null },
    log: 'remote-app-log.txt',
    numbers: { dice: 0.5 },
    numbers_unread: ['One is not read'],
    conversion: null,
    labels: { 1: { name: 'Liver', color: '#eb8' } },
    units: { inputs: null, outputs: null },
    citation: [],
    job_id: '0123456789ab',
    server: 'http://x',
    server_version: '1.2.4',
    client_version: '1.2.3',
    devices: ['NVIDIA H100', '7'],
    checkpoints: ['a.pt', 'b.pt'],
    created_at: '2025-12-31T23:00:00Z',
    started_at: '2026-01-01T00:00:00Z',
    finished_at: '2026-01-01T01:00:00Z',
    seconds: 2.123,
  });
  const after = (more: object) => made({ job: { ...ended.job, ...more } as EndedCase['job'] });
  const timed = { run_seconds: null, version: undefined };
  expect(after(timed)).toMatchObject({ seconds: 3600, app_version: 'sha256:1' });
  expect(after({ ...timed, finished_at: null }).seconds).toBeNull();
  expect(after({ ...timed, run_seconds: 0 }).seconds).toBe(0);
  // The clock of the server was set back.
  expect(after({ ...timed, finished_at: '2025-12-31T23:59:59Z' }).seconds).toBe(0);
  const deidentified = { mode: 'names' as const, allowed: ['overlay'] };
  const silent = { ...silentCase().sent, ...computationOf(submission, null, deidentified, '1') };
  expect(made({ job: null, sent: silent })).toMatchObject({
    ...{ GeneratedBy: [{ Name: 'tissue' }, { Name: 'remote-app' }], deidentified },
    ...{ devices: [], created_at: null, started_at: null, finished_at: null, seconds: null, labels: {} },
  });
});

describe('a record from outside', () => {
  const digest = 'a'.repeat(64);
  const least = silentRecord();
  const read = async (document: object) => {
    await using directory = await temporary();
    await plant(directory.path, { [recordName]: JSON.stringify(document) });
    return readRecord(directory.path);
  };

  const output = { name: 'a', size: 1, sha256: digest };
  test.each<[object, boolean]>([
    [{ outputs: [output] }, true],
    [{ outputs: [{ ...output, size: -1 }] }, false],
    [{ outputs: [{ ...output, size: 0.5 }] }, false],
    [{ outputs: [{ ...output, sha256: 'A'.repeat(64) }] }, false],
    [{ outputs: [{ ...output, sha256: `${digest}a` }] }, false],
    [{ outputs: [{ ...output, sha256: digest.slice(1) }] }, false],
    [{ inputs: [{ ...output, group: 0.5 }] }, false],
    [{ units: { inputs: 'u'.repeat(20), outputs: null } }, true],
    [{ units: { inputs: 'u'.repeat(21), outputs: null } }, false],
    [{ labels: { 1: { name: 'n'.repeat(200) } } }, true],
    [{ labels: { 1: { name: 'n'.repeat(201) } } }, false],
    [{ deidentified: { mode: 'none', allowed: [] } }, false],
    [{ conversion: { as: ['gif'], outputs: [], problems: [] } }, false],
    [{ job_id: null }, false],
    [{ edited: [{ name: 'sub/a', from: 'b', key: 'k' }] }, true],
  ])('A record is accepted only in the expected form: %j, %j', async (more, isOne) => {
    expect((await read({ ...least, ...more })) !== null).toBe(isOne);
  });
});

test('A record lists every setting that changes a result by name, including defaults', () => {
  const fields = { tta: '2', gpu: '0', keep: '60', ensemble: '3' };
  const given = { ...submission, fields, options: { batch_size: 4 } };
  const { options: settings } = computationOf(given, null, null, '1');
  expect(settings).toMatchObject({ tta: 2, ensemble: 3, batch_size: 4, mc: 0, patch_size: null });
  expect(Object.keys(settings)).toEqual(Object.keys(settings).toSorted());
  for (const name of ['gpu', 'cpu', 'keep', 'tag', 'quiet', 'time_limit', 'deidentified', 'inputs'])
    expect(settings).not.toHaveProperty(name);
  const chosen = { ...submission, fields: { ensemble_models: 'b.pt,c.pt' } };
  expect(computationOf(chosen, view, null, '1').checkpoints).toEqual(['b.pt', 'c.pt']);
  expect(computationOf(submission, null, null, '1')).toMatchObject({ checkpoints: [], app_version: null });
});

test('A record that names a file outside its directory is ignored', async () => {
  await using directory = await temporary();
  const outputs = [{ name: 'a', size: 1, sha256: 'a'.repeat(64) }];
  writeRecord(directory.path, silentRecord({ outputs }));
  expect(readRecord(directory.path)).not.toBeNull();
  const file = path.join(directory.path, recordName);
  const document = JSON.parse(await readFile(file, 'utf8'));
  await writeFile(file, JSON.stringify({ ...document, outputs: [{ ...outputs[0], name: '../a' }] }));
  expect(readRecord(directory.path)).toBeNull();
  for (const name of ['a/../../b', '/a', 'sub/..', ''])
    for (const more of [
      { edited: [{ name, from: 'a', key: 'k' }] },
      { outputs: [{ ...outputs[0], name }] },
    ]) {
      await writeFile(file, JSON.stringify({ ...document, ...more }));
      expect(readRecord(directory.path), name).toBeNull();
    }
  await writeFile(file, JSON.stringify(document).slice(0, 100));
  expect(readRecord(directory.path)).toBeNull();
});

/** Completes a result whose server is gone, so that it has no log. */
async function complete(directory: string): Promise<void> {
  await using connection = connectTo('http://127.0.0.1:1');
  await completeResult(
    connection,
    'x',
    directory,
    silentCase(),
    { imaging, originals: {} },
    memoryReporter(),
  );
}

test("An app's directory with the name of the record is renamed", async () => {
  await using directory = await temporary();
  await plant(directory.path, { [`${recordName}/a.txt`]: 'mine' });
  await complete(directory.path);
  expect(readRecord(directory.path)?.outputs).toMatchObject([{ name: 'remote-app-record_1.json/a.txt' }]);
});

test("An app's file with the name of the record is replaced by it", async () => {
  await using directory = await temporary();
  await plant(directory.path, { [recordName]: '{}' });
  await complete(directory.path);
  expect(readRecord(directory.path)?.outputs).toEqual([]);
  expect(await readdir(directory.path)).toEqual([recordName]);
});

test('Renamed outputs are renamed in the list of conversions, too', () => {
  const conversion: Conversion = {
    as: ['dicom-seg'],
    outputs: [{ from: 'mask.nii', as: 'dicom-seg', name: 'mask.dcm' }],
    problems: [],
  };
  const outputs = ['mask.nii', 'mask.dcm'].map((name) => ({ name, size: 1, sha256: 'a'.repeat(64) }));
  const record = silentRecord({ outputs, conversion });
  const renamed = withNames(record, (name) => `case_${name}`);
  expect(renamed.outputs.map(({ name }) => name)).toEqual(['case_mask.nii', 'case_mask.dcm']);
  expect(renamed.conversion?.outputs).toEqual([
    { from: 'case_mask.nii', as: 'dicom-seg', name: 'case_mask.dcm' },
  ]);
});
