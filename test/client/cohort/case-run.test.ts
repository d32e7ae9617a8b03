import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { computationOf, hashInputs, stampOfInputs } from '../../../src/client/case/index.js';
import { directoryPlace } from '../../../src/client/cohort/case-place.js';
import { CaseRun, type RunContext } from '../../../src/client/cohort/case-run.js';
import { LastLine } from '../../../src/client/cohort/failures.js';
import type { CohortOptions, CohortWatcher } from '../../../src/client/cohort/index.js';
import { JobCases, KnownJobs } from '../../../src/client/cohort/known-jobs.js';
import { ResultsDirectory } from '../../../src/client/cohort/results-directory.js';
import { CaseTable } from '../../../src/client/cohort/table.js';
import type { ConnectionOptions } from '../../../src/client/connection/connection.js';
import { logName } from '../../../src/client/output-names.js';
import type { Reporter } from '../../../src/client/reporter.js';
import type { Submission } from '../../../src/client/submission.js';
import { errorKinds } from '../../../src/contract/errors.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { namesIn } from '../../../src/files/index.js';
import { imaging } from '../../../src/imaging/index.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { type Fake, fakeService, jobId } from '../../support/fake-service.js';
import { json } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';
import { asTheyAre } from '../support/stage.js';
import { unknownTerms } from '../support/terms.js';

/** What an earlier command, or this one, did before the case is computed. */
interface Before {
  /** The number of the attempt, counted from 1. */
  readonly attempt?: number;
  /** The job of that attempt, if an earlier command sent it. */
  readonly jobId?: string;
  readonly stop?: AbortSignal;
  /** The stamp of the inputs. */
  readonly stamp?: string;
}

/** Computes a case on a service that behaves like this, and tells with which idempotency keys it was sent. */
async function run(
  fake: Fake,
  { attempt = 1, jobId: earlier, stop = new AbortController().signal, ...before }: Before = {},
  {
    submitted = {},
    isRead = true,
    ...options
  }: Partial<ConnectionOptions> & { submitted?: Submission['options']; isRead?: boolean } = {},
) {
  await using directory = await temporary();
  await plant(directory.path, { 'ct.nii': 'volume' });
  await using server = await fakeService({ result: zipOf({ 'mask.nii': 'mask' }), ...fake });
  await using connection = connectTo(server.url, options);
  const operation = operationOf('infer');
  const groups = [[path.join(directory.path, 'ct.nii')]];
  const files = [{ field: fieldWithRole(operation, 'paths'), groups }];
  const submission = { operation, app: 'tissue', fields: {}, options: submitted, files, archive: null };
  const found = await findFiles(submission);
  const inputs = await hashInputs(found);
  const told: string[] = [];
  const reporter: Reporter = {
    ...memoryReporter(),
    line: async () => isRead,
  };
  const output = path.join(directory.path, 'Output');
  using results = await ResultsDirectory.open(output);
  const known = new KnownJobs(path.join(results.own, 'jobs.jsonl'));
  if (attempt > 1 || earlier !== undefined)
    known.set('ct', {
      ...{ key: 'key', jobId: earlier ?? 'old', isOver: earlier === undefined },
      attempt: earlier === undefined ? attempt - 1 : attempt,
    });
  const watcher: CohortWatcher = {
    reporterOf: () => reporter,
    began: () => {},
    changed: ({ status, jobId: id }) => told.push(status === 'running' ? `running ${id}` : status),
  };
  const cohortOptions: CohortOptions = {
    ...{ imaging, reporter, output, deidentify: asTheyAre, clientVersion: '1', killTimeout: 5, wait: 5 },
    ...{ layout: 'cases', maxJobs: 1, isForced: false, keepsVersion: false, skipsIncomplete: false },
    ...{ failsFast: false, watcher },
  };
  const computation = computationOf(submission, null, null, '1');
  const one = { name: 'ct', subject: null, session: null, files: found, fault: null };
  const place = directoryPlace(results.directory, 'ct');
  const table = new CaseTable([one], [], results.directory, watcher, () => {});
  const facts = { address: server.url, version: null, devices: new Map() };
  const context: RunContext = {
    ...{ connection, submission, options: cohortOptions, terms: unknownTerms, results },
    ...{ computation, table, known, jobCases: new JobCases(), stop },
    server: async () => facts,
    ...{ checkVersions: () => {}, currentVersion: async () => null },
  };
  const stamp = before.stamp ?? stampOfInputs(found);
  const prepared = { foundCase: one, place, outgoing: null, inputs, key: 'key', stamp, recordedStamp: null };
  const onJobEnd = () => told.push('ended');
  const lastLine = new LastLine(reporter);
  const outcome = await new CaseRun(context, prepared, lastLine, onJobEnd)
    .run()
    .catch((error: Error) => error);
  const keys = server.to('/apps/').map(({ headers }) => headers['idempotency-key']);
  const names = namesIn(place.directory);
  const log = names.includes(logName) ? readFileSync(path.join(place.directory, logName), 'utf8') : null;
  return {
    outcome,
    keys,
    accepted: known.get('ct', 'key')?.attempt,
    told,
    log,
  };
}

const failed: Fake = {
  status: 'error',
  error: 'The disk was full',
  marker: '__ERROR__ The disk was full',
  view: { finished_at: '2020-01-01T00:00:00Z' },
};

/** The answer of a server that does not have the job, to the first questions about it. */
const losesJob = (times: number, status = 404): Pick<Fake, 'override'> => {
  let asked = 0;
  return {
    override: ({ method, url }, response) => {
      if (method !== 'GET' || url !== `/jobs/${jobId}` || asked++ >= times) return false;
      json(response, status, { detail: status === 404 ? 'Unknown job_id' : 'It has expired' });
      return true;
    },
  };
};

test('The log of a server that gives it once is kept as it was followed', async () => {
  const override: Fake['override'] = ({ url }, response) => {
    if (!url.includes('/logs')) return false;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('data: one\n\ndata: two\n\ndata: __DONE__\n\n');
    return true;
  };
  expect(await run({ override })).toMatchObject({ log: 'one\ntwo\n', outcome: { log: logName } });
  // Also where nobody reads it here any more.
  expect(await run({ override }, {}, { isRead: false })).toMatchObject({ log: 'one\ntwo\n' });
});

test.each([
  ['The server was stopped', ['key', 'key-2', 'key-3', 'key-4', 'key-5', 'key-6']],
  ['Killed by user', ['key']],
])('A case whose job ended with "%s" is sent with the keys %j', async (error, keys) => {
  const killed = await run({ status: 'killed', error, marker: `__ERROR__ ${error}` });
  expect(killed.keys).toEqual(keys);
  expect(killed.outcome).toMatchObject({ state: 'killed', details: { reason: error } });
});

test('A case whose job has expired is sent again', async () => {
  expect((await run(losesJob(1, 410))).keys).toEqual(['key', 'key-2']);
});

test("A proxy's 503 page is not mistaken for a busy server, so the wait has a limit", async () => {
  let asked = 0;
  const override: Fake['override'] = ({ method }, response) => {
    if (method !== 'POST' || asked++ > 0) return false;
    response.writeHead(503, { 'content-type': 'text/html' }).end('<p>');
    return true;
  };
  const { outcome, keys } = await run({ override }, {}, { patience: 0 });
  expect([outcome, keys]).toEqual([expect.objectContaining({ exitCode: 5 }), ['key']]);
});

test('A case whose job the server loses is sent again, with another key', async () => {
  const { outcome, keys, accepted, told } = await run(losesJob(2));
  expect(told.filter((each) => each === 'sending' || each.startsWith('running'))).toEqual([
    ...['sending', 'sending', 'sending', `running ${jobId}`],
  ]);
  expect(outcome).toMatchObject({ job_id: jobId });
  expect(keys).toEqual(['key', 'key-2', 'key-3']);
  expect(accepted).toBe(3);
});

test('A case is sent six times if the server keeps returning an old failed job, and then that failure is reported', async () => {
  const { outcome, keys } = await run(failed, { attempt: 3 });
  expect(outcome).toMatchObject({ state: 'error', message: expect.stringContaining('The disk was full') });
  expect(keys).toEqual(['key-3', 'key-4', 'key-5', 'key-6', 'key-7', 'key-8']);
});

test('Nothing is sent again once the command stops', async () => {
  const { outcome, keys } = await run(failed, { stop: AbortSignal.abort() });
  expect(outcome).toMatchObject({ state: 'error' });
  expect(keys).toEqual(['key']);
});

test('The wait for a place on the server ends when the cohort stops', async () => {
  let asked = 0;
  const override: Fake['override'] = ({ method }, response) => {
    if (method !== 'POST' || asked++ > 0) return false;
    json(response, errorKinds.busy.status, { detail: 'The queue is full' });
    return true;
  };
  const { outcome, keys } = await run({ override }, { stop: AbortSignal.abort() }, { patience: 0 });
  expect(outcome).toMatchObject({ message: expect.stringContaining('The queue is full') });
  expect(keys).toEqual(['key']);
});

test('The wait for a result that is missing after the end of the log is limited by --wait', async () => {
  const override: Fake['override'] = ({ url }, response) => {
    if (!url.endsWith('/result')) return false;
    json(response, 202, { status: 'running' }, { 'retry-after': '10' });
    return true;
  };
  expect((await run({ override })).outcome).toMatchObject({ exitCode: 3 });
});

test('A job that an earlier command sent is followed, and its failure is reported', async () => {
  const done = await run({}, { jobId, attempt: 2 });
  expect([done.outcome, done.keys]).toEqual([expect.objectContaining({ job_id: jobId }), []]);
  const ended = await run(failed, { jobId, attempt: 2 });
  expect([ended.outcome, ended.keys]).toEqual([expect.objectContaining({ state: 'error' }), []]);
});

test('A case whose job was killed after an earlier command is sent again', async () => {
  const killed = { status: 'killed', error: 'Killed by user', marker: '__ERROR__ Killed by user' };
  const { outcome, keys } = await run(killed, { jobId, attempt: 2 });
  expect(outcome).toMatchObject({ state: 'killed' });
  expect(keys).toEqual(['key-3']);
});

test('A job whose files changed while they were sent is killed', async () => {
  const killed: string[] = [];
  const { outcome, told } = await run({ onKill: () => killed.push(jobId) }, { stamp: 'of other files' });
  expect(outcome).toMatchObject({
    exitCode: 1,
    message: 'Its files changed while they were sent; run the command again',
  });
  expect(told).toEqual(['sending']);
  expect(killed).toEqual([jobId]);
});

test('A job is killed if the server did not read every option, and the error names the option', async () => {
  const killed: string[] = [];
  const override: Fake['override'] = ({ method, url }, response) => {
    if (method !== 'POST' || !url.startsWith('/apps/')) return false;
    json(response, 200, { job_id: jobId, accepted_options: ['patch_size'] });
    return true;
  };
  const fake = { override, onKill: () => killed.push(jobId) };
  const { outcome, keys, told } = await run(fake, {}, { submitted: { batch_size: 2, patch_size: 3 } });
  expect(outcome).toMatchObject({ exitCode: 1, message: 'The server did not acknowledge: batch_size' });
  expect([keys, killed, told]).toEqual([['key'], [jobId], ['sending']]);
});

test.each<[string, Fake, Before, number]>([
  ['is done since long ago', { view: { finished_at: '2020-01-01T00:00:00Z' } }, {}, 1],
  ['failed after it was sent', { ...failed, view: { finished_at: '2100-01-01T00:00:00Z' } }, {}, 1],
  ['failed, nobody knows when', { ...failed, view: {} }, {}, 1],
  ['failed before it was sent', failed, {}, 6],
  ['runs still', { status: 'running', view: { finished_at: '2020-01-01T00:00:00Z' } }, {}, 1],
])(
  'A case is sent again only if its job failed before it was sent: the job %s',
  async (_, fake, many, times) => {
    expect((await run(fake, many)).keys).toHaveLength(times);
  },
);

test('A job that is accepted when the command has stopped is killed', async () => {
  const killed: string[] = [];
  const { told } = await run({ onKill: () => killed.push(jobId) }, { stop: AbortSignal.abort() });
  expect([killed, told.slice(0, 2)]).toEqual([[jobId], ['sending', `running ${jobId}`]]);
});
