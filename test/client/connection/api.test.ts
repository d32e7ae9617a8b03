import { describe, expect, test } from 'vitest';
import {
  askFailure,
  jobFailure,
  jobs,
  kill,
  readMachine,
  remove,
  usage,
} from '../../../src/client/connection/api.js';
import type { JobFailed } from '../../../src/client/errors.js';
import { maxListed } from '../../../src/contract/index.js';
import { type Handler, json, type Received, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

/** Asks a server that answers so; tells what came of it, and what was asked. */
async function ask<T>(
  answer: (request: Received) => readonly [status: number, body: unknown],
  question: (connection: ReturnType<typeof connectTo>) => Promise<T>,
) {
  const handler: Handler = (request, response) => {
    const [status, body] = answer(request);
    json(response, status, body);
  };
  await using server = await ScriptedServer.start(handler);
  await using connection = connectTo(server.url);
  const end = await question(connection).catch((error: Error) => error);
  return { end, url: server.url, asked: server.received.map(({ method, url }) => `${method} ${url}`) };
}
const job = (job_id: string, more: object = {}) => ({ job_id, status: 'done', ...more });
const idsOf = (end: unknown) => (end as { job_id: string }[]).map(({ job_id }) => job_id);

describe('the jobs of a server', () => {
  test('At most the requested number of jobs is listed, even by a server that does not support the limit', async () => {
    const list = { jobs: ['a', 'b', 'c'].map((id) => job(id)) };
    const { end, asked } = await ask(
      () => [200, list],
      (connection) => jobs(connection, { limit: 2, all: true }),
    );
    expect([idsOf(end), asked]).toEqual([['a', 'b'], ['GET /jobs?all=1&limit=2']]);
  });

  test('Jobs can be listed by their tag', async () => {
    const { end, asked } = await ask(
      () => [200, { jobs: [job('a', { tag: 'x y' })] }],
      (connection) => jobs(connection, { tag: 'x y' }),
    );
    expect([idsOf(end), asked]).toEqual([['a'], ['GET /jobs?tag=x+y']]);
  });

  test('The list of jobs is read page by page, and ends at a repeated page', async () => {
    const all = Array.from({ length: maxListed + 2 }, (_, at) => job(`j${at}`));
    const pages = ({ url }: Received): readonly [number, unknown] => {
      const before = new URL(url, 'http://x').searchParams.get('before');
      const from = all.findIndex(({ job_id }) => job_id === before) + 1;
      return [200, { jobs: all.slice(from, from + maxListed) }];
    };
    const { end, asked } = await ask(pages, (connection) => jobs(connection));
    expect([idsOf(end), asked]).toEqual([
      all.map(({ job_id }) => job_id),
      ['GET /jobs', `GET /jobs?before=j${maxListed - 1}`],
    ]);
    const same = await ask(
      () => [200, { jobs: all.slice(0, maxListed) }],
      (connection) => jobs(connection),
    );
    expect([idsOf(same.end).length, same.asked.length]).toEqual([maxListed, 2]);
  });

  test('A server without a list of jobs is named in the error', async () => {
    const { end, url } = await ask(
      () => [404, { detail: 'Not Found' }],
      (connection) => jobs(connection),
    );
    expect(end).toMatchObject({
      status: 404,
      message: `${url} has no list of jobs, like KonfAI's server: ask for each job by its id`,
    });
  });
});

test('Usage can be asked for since a time, or for all owners', async () => {
  const nothing = () => [200, { since: null, usage: [], uploads: [] }] as const;
  expect(
    (await ask(nothing, (connection) => usage(connection, { since: '2026-01-01T00:00:00+01:00' }))).asked,
  ).toEqual(['GET /usage?since=2026-01-01T00%3A00%3A00%2B01%3A00']);
  expect((await ask(nothing, (connection) => usage(connection))).asked).toEqual(['GET /usage']);
  expect((await ask(nothing, (connection) => usage(connection, { all: '1' }, 5))).asked).toEqual([
    'GET /usage?all=1',
  ]);
});

test('A kill accepts a time-out in fractions of a second, and fails on an answer about another job or from a server that cannot remove jobs', async () => {
  const killed = await ask(
    () => [200, { status: 'killed' }],
    (connection) => kill(connection, 'ab', 4.0001),
  );
  expect([killed.end, killed.asked]).toEqual([
    { job_id: 'ab', status: 'killed', message: '' },
    ['POST /jobs/ab/kill'],
  ]);
  const ofAnother = (status: string) => () => [200, { job_id: 'cd', status }] as const;
  for (const { end } of [
    await ask(ofAnother('killed'), (connection) => kill(connection, 'ab', 4)),
    await ask(ofAnother('removed'), (connection) => remove(connection, 'ab')),
  ])
    expect((end as Error).message).toMatch(/: job_id is 'cd', not ab; is it a remote-app server\?$/);
  const removed = await ask(
    () => [405, { detail: 'x' }],
    (connection) => remove(connection, 'ab'),
  );
  expect([removed.end, removed.asked]).toEqual([
    expect.objectContaining({
      status: 405,
      message: `${removed.url} removes jobs only by itself, some time after they end, like KonfAI's server`,
    }),
    ['DELETE /jobs/ab'],
  ]);
});

describe('the GPUs of a server', () => {
  const memory = { used_gb: 1, total_gb: 2 };
  const machine = (devices: object, vram: readonly [number, unknown] = [200, memory]) =>
    ask(({ url }) => {
      if (url.startsWith('/vram')) return vram;
      const list = { devices_index: [3, 5], devices_name: ['A', 'B'], ...devices };
      return [200, url === '/ram' ? { used_gb: 8, total_gb: 64 } : list];
    }, readMachine);

  test('The GPUs of a server are listed with their memory, the jobs that hold them and what is loaded', async () => {
    const { end } = await machine({
      devices_jobs: [{ job_id: 'ab', owner: 'ada' }, null],
      devices_loaded: [['tissue'], []],
      cpu_loaded: ['x'],
    });
    expect(end).toEqual({
      gpus: [
        { id: 3, name: 'A', ...memory, free: false, job: { job_id: 'ab', owner: 'ada' }, loaded: ['tissue'] },
        { id: 5, name: 'B', ...memory, free: true, loaded: [] },
      ],
      ram: { used_gb: 8, total_gb: 64 },
      cpu_loaded: ['x'],
    });
    const { end: unnamed } = await machine({ devices_jobs: [{}, null] });
    expect(unnamed).toMatchObject({ gpus: [{ free: false }, { free: true }] });
    expect(JSON.stringify(unnamed)).not.toContain('"job"');
  });

  test('The GPUs of a cluster are listed as free or not, without a request for their memory', async () => {
    const { end, asked } = await machine({ devices_free: [true, false], devices_jobs: [null, null] });
    expect(end).toMatchObject({
      gpus: [
        { id: 3, free: true },
        { id: 5, free: false },
      ],
    });
    expect(asked.filter((each) => each.includes('vram'))).toEqual([]);
  });

  test('The GPUs of a server are listed without their memory if it is unknown, but a failed request for it is an error', async () => {
    const unknown = await machine({}, [501, { detail: 'x' }]);
    expect(unknown.end).toMatchObject({
      gpus: [
        { id: 3, name: 'A' },
        { id: 5, name: 'B' },
      ],
    });
    expect(JSON.stringify(unknown.end)).not.toContain('"used_gb":1');
    expect((await machine({}, [500, { detail: 'It failed' }])).end).toMatchObject({ message: 'It failed' });
  });
});

describe('the failure of a job', () => {
  const view = {
    ...job('ab'),
    status: 'error',
    error: 'of the view',
    expires_at: '2030',
    finished_at: '2029',
    left_files: 2,
  };
  const failure = (status: number, body: object, of: object = view) =>
    ask(
      ({ url }) => [url === '/jobs/ab' ? 200 : 404, of],
      (connection) => jobFailure(connection, 'ab', status, JSON.stringify(body)),
    );

  test('The failure of a job has the reason of the answer, otherwise of the job, and what the server knows', async () => {
    const { end } = await failure(500, { status: 'error', error: 'of the answer' });
    expect(end).toMatchObject({
      message: 'Job ab failed: of the answer',
      details: { expires_at: '2030', left_files: 2 },
      facts: { fetch: "'remote-app result ab --partial'" },
    });
    expect((await failure(500, { status: 'error' })).end).toMatchObject({
      message: 'Job ab failed: of the view',
    });
    const silent = { ...view, error: null };
    const of = (end: unknown) => (end as JobFailed).facts.now;
    expect(Math.abs(of(end) - Date.now())).toBeLessThan(60_000);
    await using later = await ScriptedServer.start((_, response) =>
      json(response, 200, view, { date: 'Tue, 01 Jan 2030 00:00:00 GMT' }),
    );
    await using connection = connectTo(later.url);
    const byServer = of(await jobFailure(connection, 'ab', 500, '{"status": "error"}'));
    expect(Math.abs(byServer - Date.UTC(2030, 0, 1))).toBeLessThan(60_000);
    expect((await failure(202, { status: 'killed' }, silent)).end).toMatchObject({
      state: 'killed',
      message: 'Job ab was killed: no reason given',
    });
  });

  test('The failure of a job counts as a refusal by its app only if the answer says so', async () => {
    const error = '--patch_size 96 is too large';
    expect((await failure(422, { status: 'error', error })).end).toMatchObject({
      ...{ state: 'refused', exitCode: 2, message: expect.stringContaining('--patch-size 96 is too large') },
    });
    expect((await failure(500, { status: 'error', error })).end).toMatchObject({
      message: `Job ab failed: ${error}`,
    });
    expect((await failure(422, { status: 'killed', error: 'x' })).end).toMatchObject({ state: 'killed' });
    expect((await failure(202, { status: 'running' })).end).toBeNull();
  });

  test('A job has no failure if its result exists or the server does not report one', async () => {
    const asks = (status: number, body: unknown) =>
      ask(
        () => [status, body],
        (connection) => askFailure(connection, 'ab'),
      );
    expect([(await asks(200, 'x')).end, (await asks(404, { detail: 'x' })).end]).toEqual([null, null]);
    const reason = new Error('Interrupted');
    await using connection = connectTo('http://127.0.0.1:1', { signal: AbortSignal.abort(reason) });
    await expect(askFailure(connection, 'ab')).rejects.toBe(reason);
  });
});
