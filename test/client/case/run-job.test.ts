import { createHash } from 'node:crypto';
import { truncateSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readRecord } from '../../../src/client/case/index.js';
import type { InputFacts } from '../../../src/client/case/recorder.js';
import { type FinishOptions, runJob, startJob } from '../../../src/client/case/run-job.js';
import { Interrupted } from '../../../src/client/errors.js';
import type { TransferPhase } from '../../../src/client/reporter.js';
import type { Submission } from '../../../src/client/submission.js';
import { operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { type Fake, fakeService, jobId } from '../../support/fake-service.js';
import { openFilesOf } from '../../support/processes.js';
import { json } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';
import { asTheyAre } from '../support/stage.js';

const operation = operationOf('infer');

/** Runs an inference against a service that behaves like this. */
async function run(
  fake: Fake,
  {
    options = {},
    controller,
    onProgress,
    results = {},
    isChanged = false,
    onSent = () => {},
    more = () => ({}),
  }: {
    options?: Submission['options'];
    controller?: AbortController;
    onProgress?: (stage: TransferPhase) => void;
    /** Additional files of the result. */
    results?: Readonly<Record<string, Buffer>>;
    /** Whether somebody writes to the input while the job runs. */
    isChanged?: boolean;
    /** Called when the job is accepted. */
    onSent?: (input: string) => void;
    /** Further options of the command, by the path of its input. */
    more?: (input: string) => Partial<FinishOptions>;
  } = {},
) {
  const killed: string[] = [];
  await using directory = await temporary();
  const input = path.join(directory.path, 'ct.nii');
  await plant(directory.path, { 'ct.nii': 'volume' });
  const zip = zipOf({ 'mask.nii': 'mask', ...results });
  const change = () => {
    writeFileSync(input, 'another volume');
    return 'changed';
  };
  const lines = isChanged ? [change] : [];
  const override: Fake['override'] = ({ method, url }) => {
    if (method === 'POST' && url.startsWith('/apps/')) onSent(input);
    return false;
  };
  const onKill = () => killed.push(jobId);
  await using server = await fakeService({ lines, result: zip, onKill, override, ...fake });
  await using connection = connectTo(server.url, controller ? { signal: controller.signal } : {});
  const field = operation.fields.find((each) => each.name === 'inputs');
  if (!field) throw new Error("the operations table has no field 'inputs'");
  const files = [{ field, groups: [[input]] }];
  const submission = { operation, app: 'tissue', fields: {}, options, files, archive: null };
  const reporter = { ...memoryReporter(), ...(onProgress ? { progress: onProgress } : {}) };
  const output = path.join(directory.path, 'Output');
  const destination = { directory: output, taken: 'number' } as const;
  const how = {
    imaging,
    reporter,
    output,
    destination,
    wait: 30,
    killTimeout: 5,
    clientVersion: '1.2.3',
    deidentify: asTheyAre,
    ...more(input),
  };
  const result = await runJob(connection, submission, how).catch((error: unknown) => error);
  const mask = await readFile(path.join(output, 'mask.nii'), 'utf8').catch(() => null);
  const kept: string[] = [];
  const keepFacts = (_: string, { inputs }: InputFacts) => kept.push(...inputs.map(({ sha256 }) => sha256));
  if (result instanceof Error) return { result, mask, killed, reporter, output, record: null, kept };
  writeFileSync(input, 'volume');
  await startJob(connection, submission, { ...how, keepFacts }, async () => void (isChanged && change()));
  return { result, mask, killed, reporter, output, record: readRecord(output), kept };
}

describe('a job', () => {
  test('A job is run from the volumes to the saved result', async () => {
    const { result, mask, reporter, killed, output } = await run({ lines: ['one', 'two'] });
    expect(result).toEqual({
      ...{ job_id: jobId, status: 'done', app: 'tissue', operation: 'infer', conversion: null },
      ...{ output, archive: path.join(output, 'result.zip'), files: 1, bytes: 4, notes: [], skipped: [] },
      sent: { inputs: [[{ path: path.join(path.dirname(output), 'ct.nii'), name: 'ct.nii' }]] },
    });
    expect(mask).toBe('mask');
    expect(reporter.lines).toEqual(['one', 'two']);
    // Of the job that was waited for: the one that was only started comes after it.
    expect(reporter.notes.slice(0, 2)).toEqual([
      `Job ${jobId} is accepted: infer on tissue`,
      `Saved 1 file in ${output}`,
    ]);
    expect(killed).toEqual([]);
  });

  test('A job has a record of what was sent beside its result, and for the command that fetches a later one', async () => {
    const sha256 = createHash('sha256').update('volume').digest('hex');
    const { record, kept, reporter } = await run({});
    expect(record?.inputs).toEqual([{ name: 'ct.nii', size: 6, sha256, field: 'inputs', group: 0 }]);
    expect(record?.outputs).toMatchObject([{ name: 'mask.nii', size: 4 }]);
    expect(kept).toEqual([sha256]);
    expect(reporter.notes.join()).not.toContain('have changed');
  });

  test('A job tells what became of the conversion that was asked for', async () => {
    const conversion = { formats: ['nifti'], isStrict: false } as const;
    const { result, record } = await run({}, { more: () => ({ conversion }) });
    const problems = [expect.stringMatching(/^mask\.nii is not converted: /)];
    expect(result).toMatchObject({ conversion: { as: ['nifti'], outputs: [], problems } });
    expect(record?.conversion).toEqual({ as: ['nifti'], outputs: [], problems });
  });

  test('A job takes no input that its result could replace', async () => {
    const more = (input: string) => ({ output: path.dirname(input), mayReplace: true });
    const { result } = await run({}, { more });
    expect(result).toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/ct\.nii' is in the directory that results go to/),
    });
  });

  test('A job has no record of inputs that have changed since they were sent', async () => {
    const { result, record, kept, reporter } = await run({}, { isChanged: true });
    expect(result).toMatchObject({ status: 'done', files: 1 });
    expect([record, kept]).toEqual([null, []]);
    expect(reporter.notes).toContain(
      'The inputs have changed since they were sent, so that no remote-app-record.json is written',
    );
  });

  test('A job that fails has no more of its inputs read', async () => {
    let sent = '';
    const onSent = (input: string) => {
      sent = input;
      // Reading all of it would take minutes.
      truncateSync(input, 1e11);
    };
    await run({ status: 'error', error: 'x', marker: '__ERROR__ x' }, { onSent });
    const opened = () => [...openFilesOf(process.pid).values()];
    await until('the input is closed', () => !opened().some((name) => name.startsWith(sent)), 2000);
  });

  test('A job that fails says why, and nothing is downloaded', async () => {
    const error = 'Subprocess failed (exit code 3)';
    const { result, mask, killed } = await run({ status: 'error', error, marker: `__ERROR__ ${error}` });
    expect(result).toMatchObject({ exitCode: 1, state: 'error', message: expect.stringContaining(error) });
    expect(mask).toBeNull();
    expect(killed).toEqual([]);
  });

  test('A job that somebody killed has another error than one that failed', async () => {
    const { result } = await run({
      status: 'killed',
      error: 'Killed by user',
      marker: '__ERROR__ Killed by user',
    });
    expect(result).toMatchObject({ exitCode: 1, state: 'killed' });
  });

  test('A job that its app refused ends like a wrong input: exit code 2', async () => {
    const { result } = await run({
      status: 'error',
      error: 'The volume is empty',
      marker: '__ERROR__ The volume is empty',
      resultStatus: 422,
    });
    expect(result).toMatchObject({
      exitCode: 2,
      state: 'refused',
      details: { status: 'error', refused: true },
    });
  });

  test('A job is killed if the server did not read every option', async () => {
    const { result, killed } = await run(
      {
        override: ({ method, url }, response) => {
          if (method !== 'POST' || !url.startsWith('/apps/')) return false;
          json(response, 200, { job_id: jobId, accepted_options: [] });
          return true;
        },
      },
      { options: { batch_size: 2 } },
    );
    expect(result).toMatchObject({
      exitCode: 1,
      message: `The server did not acknowledge: batch_size; remote job ${jobId} is killed`,
      details: { job_id: jobId, ignored_options: ['batch_size'] },
    });
    expect(killed).toEqual([jobId]);
  });

  test('A job is killed by an interruption while its log is followed, with a note', async () => {
    const controller = new AbortController();
    const interrupt = () => {
      controller.abort(new Interrupted('SIGINT'));
      return 'two';
    };
    const { result, killed, reporter } = await run(
      { lines: ['one', interrupt], marker: null },
      { controller },
    );
    expect(result).toBeInstanceOf(Interrupted);
    expect(killed).toEqual([jobId]);
    expect(reporter.notes.at(-1)).toBe(`Interrupted: killing remote job ${jobId}`);
    expect(result).toMatchObject({
      message: `Interrupted; remote job ${jobId} is killed`,
      details: { job_id: jobId, status: 'killed' },
    });
  });

  test('A job that has ended before an interruption could kill it: its result can be fetched', async () => {
    const controller = new AbortController();
    const interrupt = () => {
      controller.abort(new Interrupted('SIGINT'));
      return 'two';
    };
    const override: Fake['override'] = ({ url }, response) => {
      if (!url.endsWith('/kill')) return false;
      json(response, 200, { job_id: jobId, status: 'done' });
      return true;
    };
    const { result } = await run({ lines: [interrupt], marker: null, override }, { controller });
    expect(result).toMatchObject({
      message: `Interrupted; remote job ${jobId} is done; 'remote-app result ${jobId}' fetches its result`,
    });
  });

  test.each([['Downloading'], ['Extracting']] as const)(
    'A job that is done is not killed by an interruption while %s, and its result can be fetched later',
    async (stage) => {
      const controller = new AbortController();
      const onProgress = (each: TransferPhase) => {
        if (each === stage) controller.abort(new Interrupted('SIGINT'));
      };
      // A large file, so that work is left after the first piece.
      const results = { 'large.nii': Buffer.alloc(8 << 20) };
      const { result, killed, reporter } = await run({ lines: ['one'] }, { controller, onProgress, results });
      expect(result).toBeInstanceOf(Interrupted);
      expect(killed).toEqual([]);
      expect(reporter.notes.at(-1)).toBe(
        `Job ${jobId} is done; 'remote-app result ${jobId}' fetches its result`,
      );
    },
  );

  test('A job is not killed if only the connection to the server is lost', async () => {
    const { killed, result } = await run({
      override: ({ url }, response) => {
        if (!url.includes('/logs')) return false;
        json(response, 410, { detail: 'Expired' });
        return true;
      },
    });
    expect(result).toMatchObject({ status: 410 });
    expect(killed).toEqual([]);
  });
});
