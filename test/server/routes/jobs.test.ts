import type { RouterContext } from '@koa/router';
import { describe, expect, test } from 'vitest';
import { theAdmin } from '../../../src/access/index.js';
import type { JobView } from '../../../src/contract/job.js';
import type { JobService } from '../../../src/server/jobs/index.js';
import { showJob } from '../../../src/server/routes/jobs.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { linesOf } from '../../support/log-lines.mjs';
import { sharedServer } from '../../support/server.js';
import { zipOf } from '../../support/zip.mjs';
import { makeJob } from '../jobs/held-job.js';

const server = sharedServer({ flags: ['--cpu-slots', '1'] });
const { api } = server;

const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe('a submission', () => {
  test('A submission is answered with the envelope', async () => {
    const envelope = await api.accepted('infer', least.infer);
    const { job_id: id } = envelope;
    expect(id).toMatch(/^[0-9a-f]{12}$/);
    expect(envelope).toEqual({
      job_id: id,
      status_url: `/jobs/${id}`,
      logs_url: `/jobs/${id}/logs`,
      result_url: `/jobs/${id}/result`,
      accepted_options: [],
    });
    await api.ended(id);
  });
});

describe('a job', () => {
  test('A job shows its state, from the queue to its end', async () => {
    const gate = server.gate();
    const first = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const { job_id: id } = await api.accepted('evaluate', {
      ...least.evaluate,
      inputs: [file('dir/ct.nii'), file('mr.zarr.konfaidir.zip', zipOf({ a: 'b' }))],
      tag: ' study 7 ',
    });
    const { job_id: last } = await api.accepted('evaluate', { ...least.evaluate, cpu: '3' });

    const waiting = await api.reaches(id, 'waiting');
    expect(waiting).toEqual({
      job_id: id,
      status: 'waiting',
      error: null,
      kind: null,
      app: 'probe',
      operation: 'evaluate',
      tag: 'study 7',
      inputs: ['ct.nii', 'mr.zarr'],
      created_at: expect.stringMatching(iso),
      started_at: null,
      finished_at: null,
      run_seconds: null,
      peak_memory: null,
      peak_gpu_memory: null,
      cpu_seconds: null,
      expires_at: null,
      keep: 120,
      deidentified: false,
      left_files: null,
      bytes_kept: expect.any(Number),
      owner: null,
      time_limit: null,
      assigned_gpus: [],
      start: null,
      version: null,
      queue_position: 1,
      waiting_for: 'a CPU slot',
    } satisfies JobView);
    expect(await api.reaches(last, 'waiting')).toMatchObject({
      queue_position: 2,
      waiting_for: expect.stringContaining('3'),
    });
    expect(await api.job(first)).toMatchObject({
      status: 'running',
      started_at: expect.stringMatching(iso),
      finished_at: null,
      queue_position: null,
      waiting_for: null,
    });

    const tagged = async (query: string) =>
      (await api.json<{ jobs: JobView[] }>(`/jobs?${query}`)).jobs.map(({ job_id }) => job_id);
    expect([
      await tagged('tag=study%207'),
      await tagged('tag=study'),
      (await tagged('tag=')).includes(last),
    ]).toEqual([[id], [], true]);

    gate.open();
    const { view } = await api.ended(id);
    expect(view).toEqual({
      ...waiting,
      status: 'done',
      version: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      started_at: expect.stringMatching(iso),
      finished_at: expect.stringMatching(iso),
      run_seconds: expect.any(Number),
      peak_memory: 2 ** 20,
      cpu_seconds: 0.5,
      expires_at: expect.stringMatching(iso),
      bytes_kept: expect.any(Number),
      queue_position: null,
      waiting_for: null,
    });
    const times = [view.created_at, view.started_at, view.finished_at, view.expires_at].map((time) =>
      Date.parse(time ?? ''),
    );
    expect(times).toEqual([...times].sort((a, b) => a - b));
    // The grace period begins when the end is saved and shown.
    const grace = (times[3] ?? 0) - (times[2] ?? 0);
    expect(grace).toBeGreaterThanOrEqual(120_000 - 1);
    expect(grace).toBeLessThan(121_000);
    await api.ended(last);
  });

  test('A job says in its log that it waits, and for what', async () => {
    const gate = server.gate();
    await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const { job_id: id } = await api.accepted('infer', least.infer);
    await api.reaches(id, 'waiting');
    gate.open();
    expect(linesOf((await api.ended(id)).log).slice(0, 3)).toEqual([
      `[remote-app] Remote job ${id} accepted: infer on probe`,
      '[remote-app] Waiting for a CPU slot: position 1 in the queue',
      '[remote-app] Starting infer on the CPU',
    ]);
  });

  test('A job reports each queue position to a stream, and keeps the first and the last in its log', async () => {
    const gates = [server.gate(), server.gate(), server.gate()];
    const ids: string[] = [];
    for (const gate of gates) {
      ids.push((await api.accepted('infer', { ...least.infer, ...steps(`wait=${gate.path}`) })).job_id);
    }
    const { job_id: id } = await api.accepted('infer', least.infer);
    await api.reaches(ids[0] ?? '', 'running');
    await api.reaches(id, 'waiting');
    await using log = await api.follow(id, '?since=0');
    const place = (position: number) =>
      `[remote-app] Waiting for a CPU slot: position ${position} in the queue`;
    await log.until(place(3));
    gates[0]?.open();
    await log.until(place(2));
    gates[1]?.open();
    await log.until(place(1));
    gates[2]?.open();
    const streamed = await log.end();
    const places = (lines: readonly string[]) => lines.filter((line) => line.includes(' position '));
    expect(places(linesOf(streamed))).toEqual([place(3), place(2), place(1)]);
    // Those that the log does not keep have no number, and the others are numbered as the log has them.
    const stored = (await (await fetch(`${server.url}/jobs/${id}/log`)).text())
      .replaceAll('\r', '')
      .split('\n');
    expect(places(stored)).toEqual([place(3), place(1)]);
    const numbered = [...streamed.matchAll(/^id: (\d+)\ndata: (.*)$/gm)].map(([, number, line]) => [
      number,
      line,
    ]);
    expect(numbered).toEqual(
      stored.flatMap((line, index) => (line === '' || line === place(1) ? [] : [[String(index + 1), line]])),
    );
    expect(await api.log(id, '?redraws=1')).toContain(`event: redraw\ndata: ${place(1)}\n\n`);
  });

  test.for([
    ['exit=3', 'Subprocess failed (exit code 3)'],
    ['signal=SIGSEGV', 'Subprocess failed (exit code 139, SIGSEGV)'],
  ])('A job that fails says how: %s', async ([step = '', error]) => {
    const { view, log } = await api.run('infer', { ...least.infer, ...steps(step) });
    expect(view).toMatchObject({ status: 'error', error });
    expect(linesOf(log).at(-1)).toBe(`__ERROR__ ${error}`);
  });

  test('A job gets all CPU slots if it asks for more', async () => {
    const { view } = await api.run('infer', { ...least.infer, cpu: '64' });
    expect(view.status).toBe('done');
  });

  test.for(['0123456789ab', 'nothing', '..', '%2e%2e', 'ABCDEF012345'])(
    'A job with an unknown id is answered 404 on every route: %s',
    async (id) => {
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/logs'],
        ['GET', '/result'],
        ['POST', '/kill'],
      ] as const) {
        const response = await api.fetch(`/jobs/${encodeURIComponent(id)}${path}`, { method });
        expect(response.status).toBe(404);
        if (!id.includes('.')) expect(await response.json()).toEqual({ detail: 'Unknown job_id' });
      }
    },
  );
});

test('A job that has ended is shown when the version of its app is known', async () => {
  const { job } = await makeJob();
  let learn = (_version: string) => {};
  job.noteVersion(
    new Promise((resolve) => {
      learn = resolve;
    }),
  );
  await job.finish('error', 'It failed');
  const ctx = { captures: [job.id], state: { principal: theAdmin } } as unknown as RouterContext;
  const shown = showJob({ get: () => job } as unknown as JobService)(ctx);
  learn('1.0');
  await shown;
  expect(ctx.body).toMatchObject({ status: 'error', version: '1.0' });
});

describe('the list of jobs', () => {
  test('The list of jobs has all jobs, newest first, each as its own route shows it', async () => {
    const ids: string[] = [];
    for (let count = 0; count < 3; count += 1) ids.unshift((await api.run('infer', least.infer)).id);
    const list = await api.json<{ jobs: JobView[] }>('/jobs');
    expect(Object.keys(list)).toEqual(['jobs']);
    expect(list.jobs.slice(0, 3).map(({ job_id }) => job_id)).toEqual(ids);
    for (const view of list.jobs) expect(await api.job(view.job_id)).toEqual(view);
  });

  test('The list of jobs comes in pages, each of which continues where the previous one ended', async () => {
    const list = async (query: string) =>
      (await api.json<{ jobs: JobView[] }>(`/jobs?${query}`)).jobs.map(({ job_id }) => job_id);
    const tag = { tag: 'page' };
    const ids: string[] = [];
    for (let count = 0; count < 3; count += 1)
      ids.unshift((await api.accepted('infer', { ...least.infer, ...(count !== 1 && tag) })).job_id);
    const [third, second, first] = ids as [string, string, string];
    expect(await list('limit=2')).toEqual([third, second]);
    expect(await list(`limit=1&before=${second}`)).toEqual([first]);
    expect(await list(`limit=1&before=%20${third}%20`)).toEqual([second]);
    expect(await list(`limit=1&before=${third}&tag=%20page%20`)).toEqual([first]);
    expect(await list('tag=page&tag=')).toEqual([]);
    expect(await list(`limit=1&before=`)).toEqual([third]);
    const unknown = await api.fetch('/jobs?before=0123456789ab');
    expect([unknown.status, await unknown.json()]).toEqual([404, { detail: 'Unknown job_id' }]);
  });
});
