import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readRecord, readSentCase } from '../../../src/client/case/index.js';
import { finishJob, sendJob } from '../../../src/client/case/run-job.js';
import { Interrupted } from '../../../src/client/errors.js';
import type { Submission } from '../../../src/client/submission.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { type Fake, fakeService, jobId } from '../../support/fake-service.js';
import { json } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';
import { asTheyAre } from '../support/stage.js';

const operation = operationOf('infer');

/** Runs, or only starts, a job on a service that behaves like this. */
async function run(
  fake: Fake,
  {
    options = {},
    files = { 'ct.nii': 'volume' },
    changes = false,
    isStarted = false,
    signal,
  }: {
    options?: Submission['options'];
    files?: Readonly<Record<string, string>>;
    /** Whether somebody writes to the input while the job runs. */
    changes?: boolean;
    isStarted?: boolean;
    signal?: AbortSignal;
  } = {},
) {
  const killed: string[] = [];
  await using directory = await temporary();
  await plant(directory.path, files);
  const input = path.join(directory.path, Object.keys(files)[0] ?? '');
  const result = zipOf({ 'mask.nii': 'mask' });
  await using server = await fakeService({ result, onKill: () => killed.push(jobId), ...fake });
  await using connection = connectTo(server.url, { signal });
  const groups = [[input]];
  const paths = [{ field: fieldWithRole(operation, 'paths'), groups }];
  const submission = { operation, app: 'tissue', fields: {}, options, files: paths, archive: null };
  const reporter = memoryReporter();
  const output = path.join(directory.path, 'Output');
  const configDir = path.join(directory.path, 'config');
  const deidentify = { ...asTheyAre, configDir };
  const how = { imaging, reporter, output, deidentify, wait: 30, killTimeout: 5, clientVersion: '1.2.3' };
  const destination = { directory: output, taken: 'number' } as const;
  const send = async () => {
    using job = await sendJob(connection, submission, how, isStarted ? null : destination, () => {});
    if (changes) writeFileSync(input, 'another volume');
    // Awaited: the job is disposed of when this function returns, and reads its inputs no further.
    if (!isStarted) return await finishJob(connection, job, how, destination);
    await job.inputs.read();
    return job.envelope;
  };
  const outcome = await send().catch((error: unknown) => error);
  const kept = readSentCase(configDir, jobId, server.url);
  const { notes } = reporter;
  return { outcome, killed, notes, record: readRecord(output), kept, received: server.to('/apps/') };
}

test('A job that was only sent stores the facts of its inputs for the command that fetches its result', async () => {
  const { kept, notes } = await run({}, { isStarted: true });
  expect(kept?.inputs).toMatchObject([{ name: 'ct.nii', size: 6, field: 'inputs', group: 0 }]);
  expect(notes).toEqual([]);
});

test.each([[false], [true]])(
  'A result gets no record if its inputs have changed since they were sent (only sent: %s)',
  async (isStarted) => {
    const { outcome, record, kept, notes } = await run({}, { changes: true, isStarted });
    expect([outcome, record, kept]).toEqual([expect.objectContaining({ job_id: jobId }), null, null]);
    const note = 'The inputs have changed since they were sent, so no remote-app-record.json is written';
    expect(notes.includes(note)).toBe(!isStarted);
  },
);

test('A job is killed if the server did not read every option', async () => {
  const override: Fake['override'] = ({ method, url }, response) => {
    if (method !== 'POST' || !url.startsWith('/apps/')) return false;
    json(response, 200, { job_id: jobId, accepted_options: [] });
    return true;
  };
  const { outcome, killed } = await run({ override }, { options: { batch_size: 2 } });
  expect(outcome).toMatchObject({
    exitCode: 1,
    message: `The server did not acknowledge: batch_size; remote job ${jobId} is killed`,
    details: { job_id: jobId, ignored_options: ['batch_size'] },
  });
  expect(killed).toEqual([jobId]);
});

test('A job that ends before an interruption can kill it keeps its result, and the error says how to fetch it', async () => {
  const controller = new AbortController();
  const interrupt = () => {
    controller.abort(new Interrupted('SIGINT'));
    return 'one';
  };
  const override: Fake['override'] = ({ url }, response) => {
    if (!url.endsWith('/kill')) return false;
    json(response, 200, { job_id: jobId, status: 'done' });
    return true;
  };
  const fake = { lines: [interrupt], marker: null, override };
  const { outcome } = await run(fake, { signal: controller.signal });
  expect(outcome).toMatchObject({
    message: `Interrupted; remote job ${jobId} is done; 'remote-app result ${jobId}' fetches its result`,
  });
});

test('Nothing is sent once the command is interrupted', async () => {
  const reason = new Interrupted('SIGINT');
  const { outcome, received } = await run({}, { signal: AbortSignal.abort(reason) });
  expect([outcome, received]).toEqual([reason, []]);
});
