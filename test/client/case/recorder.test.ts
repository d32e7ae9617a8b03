import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Conversion, ConversionRequest, ResultFacts } from '../../../src/client/case/imaging.js';
import { type InputFacts, readRecord, recordLater, recordResult } from '../../../src/client/case/index.js';
import { computationOf, type RecordFacts } from '../../../src/client/case/record.js';
import { BackgroundRecorder, type Converting, serverFacts } from '../../../src/client/case/recorder.js';
import type { Case } from '../../../src/client/case/run-case.js';
import { Interrupted } from '../../../src/client/errors.js';
import type { FoundFiles } from '../../../src/client/found-files.js';
import { operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { fakeService, jobId } from '../../support/fake-service.js';
import { silentFacts } from '../../support/record-facts.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';
import { asTheyAre } from '../support/stage.js';
import { unknownTerms } from '../support/terms.js';

const submissionOf = (name: 'infer' | 'uncertainty') => ({
  ...{ operation: operationOf(name), app: 'tissue', fields: {}, options: {} },
  ...{ files: [], archive: null },
});
const submission = submissionOf('infer');
const facts = silentFacts(submission);
const app = {
  ...{ app: 'tissue', available: true, version: 'sha256:1', display_name: 'Tissue', checkpoints_name: [] },
  outputs: { CT: { display_name: 'x', volume_type: 'VOLUME', unit: 'HU' } },
  terminology: { 1: { name: 'Liver' } },
} as unknown as NonNullable<RecordFacts['app']>;

type Convert = (directory: string, facts: ResultFacts) => Promise<Conversion>;

/** Conversion by this function. */
const converting = (convert: Convert): Converting => ({
  imaging: {
    ...imaging,
    finish: async (directory, { conversion }) => (conversion ? convert(directory, conversion.facts) : null),
  },
  ...{ request: { formats: ['nrrd'], isStrict: false }, found: {} as FoundFiles, reporter: memoryReporter() },
});

test('A result is converted before its record is made, with all that the app says, and what was written is in the record', async () => {
  await using directory = await temporary();
  const report = '{"labels": {"1": {"volume_ml": 3}}}';
  await plant(directory.path, { 'mask.nii': 'mask', 'measurements.json': report });
  const conversion = { as: ['nrrd' as const], outputs: [], problems: ['x'] };
  const made: unknown[] = [];
  const convert: Convert = async (at, given) => {
    made.push(given);
    await Promise.resolve();
    writeFileSync(path.join(at, 'mask.seg.nrrd'), 'seg');
    return conversion;
  };
  const job = { version: 'sha256:2', finished_at: '2026-01-02T03:04:05Z', run_seconds: 1 };
  const known = { ...facts, app, job, clientVersion: '1.2.3' } as unknown as RecordFacts;
  expect(await recordResult(directory.path, known, undefined, converting(convert))).toEqual(conversion);
  const record = readRecord(directory.path);
  expect([record?.conversion, record?.outputs.map(({ name }) => name), record?.numbers]).toEqual([
    conversion,
    ['mask.nii', 'mask.seg.nrrd', 'measurements.json'],
    { 'liver.volume_ml': 3 },
  ]);
  const before = Date.now();
  await recordResult(directory.path, { ...known, job: null }, undefined, converting(convert));
  const scores = { ...known, computation: computationOf(submissionOf('uncertainty'), app, null) };
  await recordResult(directory.path, scores, undefined, converting(convert));
  await recordResult(directory.path, { ...known, app: null }, undefined, converting(convert));
  const one = {
    ...{ app: 'tissue', appVersion: 'sha256:2', version: '1.2.3', madeAt: new Date('2026-01-02T03:04:05Z') },
    ...{ unit: 'HU', terminology: { 1: { name: 'Liver' } } },
  };
  expect(made).toEqual([
    one,
    { ...one, appVersion: null, madeAt: expect.any(Date) },
    { ...one, unit: null },
    { ...one, unit: null, terminology: {} },
  ]);
  const { madeAt } = made[1] as { madeAt: Date };
  expect(madeAt.getTime() - before).toBeGreaterThanOrEqual(0);
});

describe('the record of a job that was sent before', () => {
  const { job: _job, jobId: _id, ...sent } = facts;
  const later = async (place: string, convert?: Convert) => {
    await using server = await fakeService({ view: { run_seconds: 4, version: 'sha256:3' } });
    await using connection = connectTo(server.url);
    const reporter = memoryReporter();
    const where = { directory: place, log: 'remote-app-log.txt' };
    const made = await recordLater(connection, jobId, sent, where, reporter, convert && converting(convert));
    return { made, notes: reporter.notes };
  };

  test('The record of a job that was sent before says what the server knows of it, and names its log', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'mask.nii': 'mask', 'remote-app-log.txt': 'one' });
    const conversion = { as: [], outputs: [], problems: [] };
    expect(await later(directory.path, async () => conversion)).toEqual({ made: conversion, notes: [] });
    expect(readRecord(directory.path)).toMatchObject({
      ...{ job_id: jobId, seconds: 4, app_version: 'sha256:3', log: 'remote-app-log.txt', conversion },
      outputs: [{ name: 'mask.nii' }],
    });
    expect((await later(directory.path)).made).toBeNull();
  });

  test('The record of a job that was sent before that cannot be written is a note, and another fault is none', async () => {
    expect(await later('/nowhere/at/all')).toEqual({
      made: null,
      notes: [expect.stringMatching(/^'remote-app-record\.json' cannot be written: ENOENT: no such file/)],
    });
    await using directory = await temporary();
    const fails = later(directory.path, () => Promise.reject(new Error('A fault of ours')));
    await expect(fails).rejects.toThrow('A fault of ours');
  });
});

describe('the record of a job that is waited for', () => {
  /** Records a job of these files. Returns what was kept, the notes, and the files of the result. */
  async function recorded(found: object, isBegun = true) {
    await using directory = await temporary();
    await using server = await fakeService({});
    await using connection = connectTo(server.url);
    const reporter = memoryReporter();
    const kept: InputFacts[] = [];
    const work = { submission, found, terms: unknownTerms, outgoing: null } as unknown as Case;
    const how = { imaging, reporter, clientVersion: '1.2.3' };
    const keepFacts = (_: string, each: InputFacts) => kept.push(each);
    using recorder = new BackgroundRecorder(connection, work, { ...how, keepFacts });
    if (isBegun) recorder.begins(jobId);
    await recorder.read();
    const conversion = await recorder.write(jobId, directory.path, null);
    const { notes } = reporter;
    return { kept, conversion, notes, files: readdirSync(directory.path), server: server.url };
  }
  const foundOf = (file: string) => ({
    volumes: [
      { field: { name: 'inputs' }, groups: [[{ kind: 'file', name: 'ct.nii', path: file, size: 2 }]] },
    ],
    dataSet: null,
  });

  test('The record of a job that is waited for has the inputs, the server and this program, which are kept for a later command as well', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': 'ct' });
    const { kept, notes, files, server } = await recorded(foundOf(path.join(directory.path, 'ct.nii')));
    expect([notes, files]).toEqual([[], ['remote-app-record.json']]);
    expect(kept).toEqual([
      {
        computation: computationOf(submission, null, null),
        inputs: [expect.objectContaining({ name: 'ct.nii', size: 2, field: 'inputs', group: 0 })],
        app: null,
        server: {
          address: server,
          version: null,
          devices: new Map([
            [0, 'NVIDIA H200'],
            [2, 'NVIDIA L4'],
          ]),
        },
        clientVersion: '1.2.3',
      },
    ]);
  });

  test('The record of a job that is waited for is not what an interruption is taken for: it says of no inputs that they have changed', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': 'ct' });
    await using server = await fakeService({});
    const reason = new Interrupted('SIGINT');
    await using connection = connectTo(server.url, { signal: AbortSignal.abort(reason) });
    const reporter = memoryReporter();
    const found = foundOf(path.join(directory.path, 'ct.nii'));
    const work = { submission, found, terms: unknownTerms, outgoing: null } as unknown as Case;
    const how = { imaging, reporter, clientVersion: '1.2.3' };
    const recorder = new BackgroundRecorder(connection, work, how);
    recorder.begins(jobId);
    recorder[Symbol.dispose]();
    await expect(recorder.write(jobId, directory.path, null)).rejects.toBe(reason);
    expect(reporter.notes).toEqual([]);
  });

  test('The record of a job that is waited for is left out where its inputs cannot be read, with a note, and silently of a data set or of no job', async () => {
    const changed =
      'The inputs have changed since they were sent, so that no remote-app-record.json is written';
    const gone = await recorded(foundOf('/nowhere/ct.nii'));
    expect(gone).toMatchObject({ kept: [], conversion: null, notes: [changed], files: [] });
    const found = { volumes: [] as FoundFiles['volumes'], dataSet: { path: '/nowhere' } };
    const nothing = { kept: [], conversion: null, notes: [], files: [] };
    expect(await recorded(found)).toMatchObject(nothing);
    expect(await recorded({ ...found, dataSet: null }, false)).toMatchObject(nothing);
  });
});

test('No result is asked for in a format that one of the cases cannot have', async () => {
  const found = (name: string, format: string) =>
    ({
      volumes: [{ field: { name: 'inputs' }, groups: [[{ kind: 'file', name, path: name, format }]] }],
    }) as unknown as FoundFiles;
  const request: ConversionRequest = { formats: ['dicom'], isStrict: false };
  const scan = found('a.dcm', 'DICOM');
  const asked = (conversion: ConversionRequest | undefined, ...cases: FoundFiles[]) =>
    imaging.prepare(
      cases,
      { deidentify: asTheyAre, requiresDeidentified: null, server: '', conversion },
      memoryReporter(),
    );
  await asked(request, scan);
  await asked(undefined, scan, found('b.nii', 'NIfTI'));
  await expect(asked(request, scan, found('b.nii', 'NIfTI'))).rejects.toThrow("'b.nii' is no DICOM series");
});

test('A server says its version, and GPUs have the names at their places in its list, and none that it does not say', async () => {
  const list = { devices_index: [2, 5, 7], devices_name: ['NVIDIA H100', 'NVIDIA A40'] };
  let version: string | null = '1.2.4';
  await using server = await ScriptedServer.start(({ url }, response) => {
    if (url.startsWith('/available_devices')) json(response, 200, list);
    else if (url.startsWith('/limits') && version) json(response, 200, { version });
    else json(response, 404, { detail: 'None' });
  });
  await using connection = connectTo(server.url);
  const known = {
    address: server.url,
    version,
    devices: new Map([
      [2, 'NVIDIA H100'],
      [5, 'NVIDIA A40'],
      [7, '7'],
    ]),
  };
  expect(await serverFacts(connection)).toEqual(known);
  version = null;
  expect(await serverFacts(connection)).toEqual({ ...known, version: null });
});
