import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { ChooseSeries } from '../../../src/client/case/imaging.js';
import { readNames } from '../../../src/client/case/index.js';
import { type FinishedJob, runJob, type StartedJob, startJob } from '../../../src/client/case/run-job.js';
import { Interrupted } from '../../../src/client/errors.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { dicomSeries } from '../../support/dicom.js';
import { type Fake, fakeService, jobId } from '../../support/fake-service.js';
import { json } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';

interface Wanted {
  readonly fake?: Fake;
  /** Files below the directory that is named. */
  readonly files?: Readonly<Record<string, string | Buffer>>;
  readonly mode?: 'names' | null;
  /** Whether nobody waits for the job. */
  readonly isStarted?: boolean;
  readonly signal?: AbortSignal;
  readonly operation?: 'infer' | 'evaluate';
  readonly chooseSeries?: ChooseSeries;
}

/** Runs or starts a job of a directory of files. */
async function run({ fake = {}, files = { 'ada.nii': 'x' }, mode = null, isStarted, ...more }: Wanted) {
  await using directory = await temporary();
  const input = path.join(directory.path, 'in');
  await plant(input, files);
  const result = zipOf({ 'mask.nii': 'mask' });
  await using server = await fakeService({ lines: ['case-0001 is read'], result, ...fake });
  await using connection = connectTo(server.url, { signal: more.signal });
  const operation = operationOf(more.operation ?? 'infer');
  const groups = [[input]];
  const sent = [{ field: fieldWithRole(operation, 'paths'), groups }];
  const submission = { operation, app: 'tissue', fields: {}, options: {}, files: sent, archive: null };
  const configDir = path.join(directory.path, 'config');
  const output = path.join(directory.path, 'Output');
  const reporter = memoryReporter();
  const waits: unknown[] = [];
  const order: string[] = [];
  let keep = () => {};
  const isKept = new Promise<void>((resolve) => {
    keep = resolve;
  });
  const how = {
    imaging,
    reporter: { ...reporter, waiting: (what: string | null) => void waits.push(what) },
    output,
    destination: { directory: output, taken: 'number' },
    wait: 30,
    killTimeout: 5,
    clientVersion: '1.2.3',
    deidentify: { mode, isRefused: false, allowed: [], configDir, profile: 'default' },
    chooseSeries: more.chooseSeries,
    keepFacts: () => keep(),
  } as const;
  const tellAccepted = async (id: string) => {
    await isKept;
    await turn();
    order.push(`told of ${id}`);
  };
  const running: Promise<FinishedJob | StartedJob> = isStarted
    ? startJob(connection, submission, how, tellAccepted)
    : runJob(connection, submission, how);
  const outcome = await running.catch((error: Error) => error);
  order.push('returned');
  const log = await readFile(path.join(output, 'remote-app-log.txt'), 'utf8').catch(() => null);
  const names = readNames(configDir, jobId);
  const { url, received } = server;
  return { outcome, names, log, input, waits, order, url, received, notes: reporter.notes, reporter };
}

describe('a job whose files leave under neutral names', () => {
  const override: Fake['override'] = ({ url }, response) => {
    if (!url.endsWith('/log')) return false;
    response.writeHead(200, { 'content-type': 'text/plain' }).end('case-0001 is read\n');
    return true;
  };

  test('A job whose files leave under neutral names says so, and is shown, logged and kept under the names that the person knows', async () => {
    const { outcome, names, log, input, notes, reporter } = await run({ mode: 'names', fake: { override } });
    const target = path.join(input, 'ada.nii');
    expect(notes[1]).toBe(`Sent under neutral names: ${target} -> case-0001.nii`);
    expect(outcome).toMatchObject({ sent: { inputs: [[{ path: target, name: 'case-0001.nii' }]] } });
    expect([names, reporter.lines, log]).toEqual([{ 'case-0001': 'ada' }, ['ada is read'], 'ada is read\n']);
  });

  test('A job whose files leave under neutral names that is only started keeps them too, and the facts of its inputs, and is told of before it returns', async () => {
    const { names, order, outcome } = await run({ mode: 'names', isStarted: true });
    expect([names, order]).toEqual([{ 'case-0001': 'ada' }, [`told of ${jobId}`, 'returned']]);
    expect(outcome).toMatchObject({ sent: { inputs: [[{ name: 'case-0001.nii' }]] } });
  });

  test('A job whose files leave under neutral names is that of a server that takes no other, also where nobody asks for it here', async () => {
    const override: Fake['override'] = ({ url }, response) => {
      if (url === '/limits') json(response, 200, { require_deidentified: true });
      return url === '/limits';
    };
    const { notes, url } = await run({ fake: { override } });
    expect(notes[0]).toBe(
      `${url} takes de-identified files alone: they are de-identified here, as with --deidentify`,
    );
  });
});

describe('the files of a job', () => {
  const series = {
    ...dicomSeries(2, { series: '1' }, (image) => `one/${image}`),
    ...dicomSeries(2, { series: '2', number: 2 }, (image) => `two/${image}`),
  };

  test('The files of a job are the series that a person chooses', async () => {
    const chooseSeries: ChooseSeries = async (found) => found.slice(1);
    const { outcome } = await run({ files: series, chooseSeries, isStarted: true });
    const sent = { inputs: [[{ path: expect.stringMatching(/\/two$/) }]] };
    expect(outcome).toMatchObject({ sent });
  });

  test('The files of a job are read no further once the command is interrupted', async () => {
    const reason = new Interrupted('SIGINT');
    const { outcome, received, waits } = await run({ files: series, signal: AbortSignal.abort(reason) });
    expect([outcome, received, waits]).toEqual([reason, [], []]);
  });

  test('The files of a job matter less than an app that has no such operation, where they cannot be sent', async () => {
    const view = { app: 'tissue', display_name: 'T', has_capabilities: [true, false, false] };
    const override: Fake['override'] = ({ url }, response) => {
      if (url === '/repo_apps/tissue') json(response, 200, view);
      return url === '/repo_apps/tissue';
    };
    const { outcome } = await run({ files: { 'a.txt': '' }, operation: 'evaluate', fake: { override } });
    expect(outcome).toMatchObject({ message: "The app 'tissue' has no evaluation; it has: inference" });
  });

  test('The files of a job are sent once the server has said what it takes, and nothing is shown to be waited for where it refuses', async () => {
    const { outcome, waits, url } = await run({ fake: { token: 'another' } });
    expect(outcome).toMatchObject({ exitCode: 4 });
    expect(waits).toEqual([`Asking ${url} what it takes`, null]);
  });
});
