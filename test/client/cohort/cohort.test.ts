import { readdirSync, readFileSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type CaseState, type CohortOptions, runCohort } from '../../../src/client/cohort/index.js';
import { Interrupted } from '../../../src/client/errors.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { type Fake, fakeService } from '../../support/fake-service.js';
import { json } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';
import { asTheyAre } from '../support/stage.js';

/** A service that runs a job for each scan: one of a `bad` scan fails once a `slow` one is followed, which runs until it is killed. */
function manyJobs(numbers: object = { dice: 0.5 }) {
  const jobs = new Map<string, { scan: string; status: string; log?: ServerResponse }>();
  const killed: string[] = [];
  const result = zipOf({ 'mask.nii': 'mask', 'measurements.json': JSON.stringify(numbers) });
  const hasSlow = () => [...jobs.values()].some(({ scan }) => scan.includes('slow'));
  let follow = () => {};
  const isFollowed = new Promise<void>((resolve) => {
    follow = resolve;
  });
  const override: Fake['override'] = async ({ method, url, body }, response) => {
    const [, kind, id = '', what] = url.split(/[/?]/);
    if (method === 'POST' && kind === 'apps') {
      const scan = /filename="([^"]+)"/.exec(body.toString('latin1'))?.[1] ?? '';
      const jobId = String(jobs.size + 1).padStart(12, '0');
      jobs.set(jobId, { scan, status: scan.startsWith('bad') ? 'error' : 'done' });
      json(response, 200, { job_id: jobId, accepted_options: [] });
      return true;
    }
    const job = jobs.get(id);
    if (!job) return false;
    if (what === 'logs') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`id: 1\ndata: this is ${job.scan}\n\n`);
      if (job.scan.includes('slow')) follow();
      if (job.scan.startsWith('bad') && hasSlow()) await isFollowed;
      if (job.scan.includes('slow') && job.status !== 'killed') job.log = response;
      else response.end(`data: ${job.status === 'done' ? '__DONE__' : '__ERROR__ It failed'}\n\n`);
    } else if (what === 'result' && job.status === 'done') {
      response.writeHead(200, {
        'content-type': 'application/zip',
        'content-length': result.length,
        etag: '"a"',
      });
      response.end(result);
    } else if (what === 'kill') {
      killed.push(job.scan);
      job.status = 'killed';
      job.log?.end('data: __ERROR__ Killed by user\n\n');
      json(response, 200, { job_id: id, status: 'killed' });
    } else {
      const error = { done: null, error: 'It failed', killed: 'Killed by user' }[job.status] ?? null;
      const status = job.scan.includes('slow') && job.status === 'done' ? 'running' : job.status;
      const code = what !== 'result' ? 200 : status === 'killed' ? 409 : 500;
      json(response, code, { job_id: id, status, error, app: 'tissue', operation: 'infer' });
    }
    return true;
  };
  return { override, jobs, killed };
}

/** Runs a cohort of these scans. `watch` is called with the directory of all, and each change of a case. */
async function run(
  names: readonly string[],
  service: ReturnType<typeof manyJobs>,
  more: Partial<CohortOptions> = {},
  watch: (root: string, state: CaseState | null) => void = () => {},
  { place, signal }: { place?: string; signal?: AbortSignal } = {},
) {
  await using own = await temporary();
  const root = { path: place ?? own.path };
  await plant(root.path, { 'in/': '' });
  const there = readdirSync(path.join(root.path, 'in'));
  for (const name of there) if (!names.includes(name)) rmSync(path.join(root.path, 'in', name));
  const missing = names.filter((name) => !there.includes(name));
  await plant(root.path, Object.fromEntries(missing.map((name) => [`in/${name}`, name])));
  await using server = await fakeService({ override: service.override });
  await using connection = connectTo(server.url, { patience: 0, signal });
  const operation = operationOf('infer');
  const files = [{ field: fieldWithRole(operation, 'paths'), groups: [[path.join(root.path, 'in')]] }];
  const reporter = memoryReporter();
  const statuses = new Map<string, string[]>();
  const output = path.join(root.path, 'Out');
  const summary = await runCohort(
    connection,
    { operation, app: 'tissue', fields: {}, options: {}, files, archive: null },
    {
      ...{
        imaging,
        output,
        deidentify: asTheyAre,
        layout: 'cases',
        maxJobs: 4,
        isForced: false,
        skipsIncomplete: false,
      },
      ...{
        keepsVersion: false,
        failsFast: false,
        reporter,
        clientVersion: '1',
        killTimeout: 5,
      },
      wait: 5,
      watcher: {
        reporterOf: () => memoryReporter(),
        began: () => watch(root.path, null),
        changed: (state) => {
          statuses.set(state.name, [...(statuses.get(state.name) ?? []), state.status]);
          watch(root.path, state);
        },
      },
      ...more,
    },
  );
  return {
    states: summary.cases.map(({ name, status, reason, jobId, isNew }) => [
      name,
      status,
      reason,
      jobId,
      isNew,
    ]),
    summary: { ...summary, cases: summary.cases.length, notes: undefined },
    statuses: Object.fromEntries(statuses),
    notes: [...reporter.notes, ...summary.notes],
    table: readFileSync(summary.table, 'utf8').trimEnd().split('\r\n'),
    output,
    keys: server.to('/apps/').map(({ headers }) => String(headers['idempotency-key'])),
  };
}

test('A case is read, waits for its turn, is sent, runs and is fetched, and is done with its job and its numbers', async () => {
  const service = manyJobs();
  const { states, summary, statuses, table, output, notes } = await run(['a.nii', 'b.nii'], service);
  const way = ['reading', 'waiting', 'sending', 'running', 'fetching', 'done'];
  expect(statuses).toEqual({ a: way, b: way });
  const ids = new Map([...service.jobs].map(([id, { scan }]) => [scan, id]));
  expect(states).toEqual([
    ['a', 'done', null, ids.get('a.nii'), true],
    ['b', 'done', null, ids.get('b.nii'), true],
  ]);
  expect(summary).toEqual({ output, table: path.join(output, 'cases.csv'), cases: 2, orphaned: [] });
  expect(table).toEqual([
    'case,status,reason,version,seconds,job,dice',
    `a,done,,,,${ids.get('a.nii')},0.5`,
    `b,done,,,,${ids.get('b.nii')},0.5`,
  ]);
  expect([notes, service.killed]).toEqual([[], []]);
});

test('With --fail-fast, the first failure kills the running jobs, and their cases wait again', async () => {
  const service = manyJobs();
  const how = { failsFast: true, maxJobs: 2 };
  const { states } = await run(['a-slow.nii', 'bad.nii', 'c.nii'], service, how);
  const failed = [...service.jobs].find(([, { scan }]) => scan === 'bad.nii')?.[0];
  expect(states).toEqual([
    ['a-slow', 'waiting', null, null, false],
    ['bad', 'failed', 'It failed: this is bad.nii', failed, false],
    ['c', 'waiting', null, null, false],
  ]);
  expect([service.killed, service.jobs.size]).toEqual([['a-slow.nii'], 2]);
});

test('If one case fails, or its scan is gone when its turn comes, the others continue', async () => {
  const service = manyJobs();
  const remove = (root: string, state: CaseState | null) => {
    if (state === null) rmSync(path.join(root, 'in', 'b.nii'));
  };
  const { states, statuses, table } = await run(
    ['a.nii', 'b.nii', 'bad.nii'],
    service,
    { maxJobs: 1 },
    remove,
  );
  const gone = expect.stringMatching(
    /^It cannot be read: ENOENT: no such file or directory, stat '\S+b\.nii'$/,
  );
  expect(states.map((each) => each.slice(0, 3))).toEqual([
    ['a', 'done', null],
    ['b', 'failed', gone],
    ['bad', 'failed', 'It failed: this is bad.nii'],
  ]);
  expect(statuses.b).toEqual(['reading', 'failed']);
  expect(table.map((line) => line.split(',')[1])).toEqual(['status', 'done', 'failed', 'failed']);
  expect([service.killed, service.jobs.size]).toEqual([[], 2]);
});

test.each([
  [1, 1],
  [3, 3],
  [9, 5],
  [9, 2, { max_jobs: 2 }],
])('With --at-most %i, %i jobs run at once: %#', async (maxJobs, expected, limits: object | null = null) => {
  const service = manyJobs();
  const running = new Set<string>();
  const conditions = new Set<string>();
  let [most, sent] = [0, 0];
  let open = () => {};
  const isOpen = new Promise<void>((resolve) => {
    open = resolve;
  });
  // Nothing is accepted before as many as may be were sent, and the next one waits.
  const wanted = expected === 5 ? ['sent'] : ['sent', 'waits'];
  const meet = (condition: string) => {
    if (conditions.add(condition).size === wanted.length) open();
  };
  const override: Fake['override'] = async (request, response, raw) => {
    if (limits !== null && request.url?.startsWith('/limits')) {
      json(response, 200, limits);
      return true;
    }
    if (request.method === 'POST') {
      sent += 1;
      if (sent === expected) meet('sent');
      await isOpen;
    }
    return (await service.override?.(request, response, raw)) ?? false;
  };
  const names = Array.from({ length: 5 }, (_, at) => `${at}.nii`);
  await run(names, { ...service, override }, { maxJobs }, (_, state) => {
    if (state?.status === 'waiting' && state.name === String(expected)) meet('waits');
    if (state?.status === 'sending') running.add(state.name);
    if (state?.status === 'fetching') running.delete(state.name);
    most = Math.max(most, running.size);
  });
  expect(most).toBe(expected);
});

test('The summary counts the numbers that do not fit into the table', async () => {
  const numbers = Object.fromEntries(Array.from({ length: 502 }, (_, at) => [`n${at}`, at]));
  expect((await run(['a.nii'], manyJobs(numbers))).notes).toEqual([
    'cases.csv has no column for 2 numbers that few cases have; the records have them',
  ]);
});

test('The next command sends a failed case as another attempt, and forgets the job of one that is done', async () => {
  await using root = await temporary();
  const service = manyJobs();
  const again = () => run(['a.nii', 'bad.nii'], service, {}, () => {}, { place: root.path });
  const known = () =>
    readFileSync(path.join(root.path, 'Out', '.remote-app', 'jobs.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  const first = await again();
  const failed = first.states.find(([name]) => name === 'bad')?.[3];
  const key = first.keys.find((each) => each === known()[0][1]);
  expect(known()).toEqual([['bad', key, 1, failed, true]]);
  const second = await again();
  expect([second.keys, known()]).toEqual([[`${key}-2`], [['bad', key, 2, '000000000003', true]]]);
});

test('A result that lacks a wanted conversion is computed again, once', async () => {
  await using root = await temporary();
  const service = manyJobs();
  const sent = async (more: Partial<CohortOptions>) =>
    (await run(['a.nii'], service, more, () => {}, { place: root.path })).keys.length;
  const conversion = { formats: ['nrrd'], isStrict: false } as const;
  expect([await sent({}), await sent({ conversion }), await sent({ conversion }), await sent({})]).toEqual([
    ...[1, 1, 0, 0],
  ]);
});

test.each([
  ['SIGINT', 'kills the job', '', ['slow.nii']],
  ['SIGQUIT', 'leaves the job running and says so', '; 1 job is still running on the server', []],
])('%s %s', async (name, _what, jobs, killed) => {
  const service = manyJobs();
  const controller = new AbortController();
  const interrupt = (_: string, state: CaseState | null) => {
    if (state?.status === 'running') controller.abort(new Interrupted(name));
  };
  const running = run(['slow.nii'], service, {}, interrupt, { signal: controller.signal });
  await expect(running).rejects.toMatchObject({
    message: `Interrupted; 0 of 1 case done${jobs}; the same command continues with the others`,
  });
  expect(service.killed).toEqual(killed);
});

test('A version that the server is still computing is waited for, since keys depend on it', async () => {
  const service = manyJobs();
  const answers: (string | null)[] = [null, null, 'v1'];
  const override: Fake['override'] = async (request, response, raw) => {
    if (request.url !== '/repo_apps/tissue')
      return (await service.override?.(request, response, raw)) ?? false;
    const about = { app: 'tissue', display_name: 'x', maximum_tta: 0, mc_dropout: 0 };
    const version = answers.length > 1 ? answers.shift() : answers[0];
    json(response, 200, { ...about, checkpoints_name: [], checkpoints_name_available: [], version });
    return true;
  };
  const { table } = await run(['a.nii'], { ...service, override });
  expect(table[1]).toMatch(/^a,done,,v1,/);
  expect(answers).toEqual(['v1']);
});

test('An upgrade between the question for the version and the first job stops the command if it has reused results', async () => {
  await using study = await temporary();
  const service = manyJobs();
  let ran = 'v1';
  const about = { app: 'tissue', display_name: 'x', maximum_tta: 0, mc_dropout: 0, version: 'v1' };
  const override: Fake['override'] = async (request, response, raw) => {
    const [, id] = /^\/jobs\/(\d+)$/.exec(request.url ?? '') ?? [];
    if (request.url === '/repo_apps/tissue')
      json(response, 200, { ...about, checkpoints_name: [], checkpoints_name_available: [] });
    else if (id)
      json(response, 200, { job_id: id, status: 'done', app: 'tissue', operation: 'infer', version: ran });
    else return (await service.override?.(request, response, raw)) ?? false;
    return true;
  };
  const upgraded = { ...service, override };
  await run(['a.nii'], upgraded, {}, undefined, { place: study.path });
  ran = 'v2';
  await expect(
    run(['a.nii', 'b.nii'], upgraded, { maxJobs: 1 }, undefined, { place: study.path }),
  ).rejects.toThrow(/is version 'v2' now, and 1 result here is of version 'v1': give --force/);
});
