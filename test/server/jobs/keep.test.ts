import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { until } from '../../support/until.mjs';

const hour = 3600;
const week = 7 * 24 * hour;

/** Seconds from a job's end to the time until which it is kept. */
const kept = (view: { finished_at: string | null; expires_at: string | null }) =>
  (Date.parse(view.expires_at ?? '') - Date.parse(view.finished_at ?? '')) / 1000;

/** Changes the record of a job while there is no server. */
function rewrite(server: TestServer, id: string, change: (record: Record<string, unknown>) => void): void {
  const file = path.join(server.jobDirectory(id), 'job.json');
  const record = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  change(record);
  writeFileSync(file, JSON.stringify(record));
}

describe('a job is kept after its end', () => {
  const server = sharedServer({ clock: new TestClock() });
  const { api } = server;

  test.for([
    [undefined, 120],
    ['', 120],
    ['30s', 120],
    ['200', 200],
    ['3m', 180],
    ['12h', 12 * hour],
    ['7d', week],
    ['max', week],
  ] as const)('A job with keep=%s is kept for %d s, as it says before and after', async ([keep, seconds]) => {
    const gate = server.gate();
    const form = { ...least.infer, ...(keep === undefined ? {} : { keep }), ...steps(`wait=${gate.path}`) };
    const id = await api.running('infer', form);
    expect(await api.job(id)).toMatchObject({ keep: seconds, expires_at: null });
    gate.open();
    const { view } = await api.ended(id);
    expect(view).toMatchObject({ status: 'done', keep: seconds });
    expect(kept(view)).toBe(seconds);
  });

  test.for([
    ['8d', "Field 'keep' is at most 7d on this server, got 8d"],
    ['604801', "Field 'keep' is at most 7d on this server, got 604801s"],
    ['soon', "Field 'keep' must be a time such as 90s, 15m, 12h or 7d, or 'max', got 'soon'"],
    ['-1', "Field 'keep' must be a time such as 90s, 15m, 12h or 7d, or 'max', got '-1'"],
    ['1.5h', "Field 'keep' must be a time such as 90s, 15m, 12h or 7d, or 'max', got '1.5h'"],
  ] as const)('A job is refused with keep=%s', async ([keep, sentence]) => {
    expect(await api.refused('infer', { keep, ...least.infer })).toEqual([422, sentence]);
    expect(await api.refused('infer', { ...least.infer, keep })).toEqual([422, sentence]);
  });

  test('A job is kept for the same time after its end, even if its result is downloaded', async () => {
    const { id, view } = await api.run('infer', { ...least.infer, keep: '1h' });
    await api.result(id);
    expect((await api.fetch(`/jobs/${id}/result`, { headers: { range: 'bytes=0-9' } })).status).toBe(206);
    expect(kept(await api.job(id))).toBe(kept(view));
  });
});

test('A job is removed when its own keep time is over, regardless of the grace period', async () => {
  const clock = new TestClock();
  await using server = await TestServer.start({ clock, flags: ['--grace', '1', '--max-keep', '4s'] });
  const { api } = server;
  const long = await api.run('infer', { ...least.infer, keep: 'max' });
  const short = await api.run('infer', least.infer);
  const statusOf = async (id: string) => (await api.fetch(`/jobs/${id}`)).status;
  clock.pass(1);
  expect([await statusOf(short.id), await statusOf(long.id)]).toEqual([410, 200]);
  expect(kept(long.view)).toBe(4);
  clock.pass(2.999);
  expect(await statusOf(long.id)).toBe(200);
  clock.pass(0.001);
  expect(await statusOf(long.id)).toBe(410);
});

test.for([
  ['done', ['print=x']],
  ['error', ['write=half.txt:half', 'exit=3']],
  ['killed', ['write=half.txt:half', 'print=ready', 'wait=/nowhere']],
] as const)(
  'The input of a job is removed when its state is %s, and its output stays',
  async ([state, todo]) => {
    await using server = await TestServer.start();
    const { api } = server;
    const form = { ...least.infer, ...steps(...todo) };
    const id =
      state === 'killed' ? await api.running('infer', form, 'ready') : (await api.run('infer', form)).id;
    if (state === 'killed') await api.kill(id);
    expect((await api.job(id)).status).toBe(state);
    const isThere = () => existsSync(path.join(server.jobDirectory(id), 'Input'));
    await until('its input is removed', () => !isThere());
    const left = await api.fetch(`/jobs/${id}/result?partial=1`);
    expect([left.status, (await left.arrayBuffer()).byteLength > 0]).toEqual([200, true]);
    // A server that was killed before it could: the next one does.
    await server.stop();
    mkdirSync(path.join(server.jobDirectory(id), 'Input'));
    await server.start();
    await until('the input is removed after a restart', () => !isThere());
    expect(await api.job(id)).toMatchObject({ status: state });
  },
);

describe('a restart', () => {
  const clock = new TestClock();
  const server = sharedServer({ clock });
  const { api } = server;

  /** Seconds from now until a job expires. */
  const left = async (id: string) => (Date.parse((await api.job(id)).expires_at ?? '') - clock.now()) / 1000;

  test('A restart keeps a job as long as promised, even with another --max-keep, and no longer', async () => {
    const { id, view } = await api.run('infer', { ...least.infer, keep: '7d' });
    for (const _ of [1, 2]) {
      await server.restart(['--max-keep', '1h', '--grace', '1']);
      const after = await api.job(id);
      expect(after.keep).toBe(week);
      expect(kept(after)).toBe(kept(view));
    }
    // For a job that runs when the server ends, the whole time counts from its end.
    const gate = server.gate();
    const later = await api.running('infer', { ...least.infer, keep: '1h', ...steps(`wait=${gate.path}`) });
    await server.restart(['--max-keep', '5s', '--grace', '1']);
    gate.open();
    expect(kept((await api.ended(later)).view)).toBe(hour);
    await server.restart();
  });

  test.for([null, { boot: 'another', seconds: 1e9 }])(
    'A restart after the promised time leaves a grace period to fetch the result',
    async (before) => {
      const { id } = await api.run('infer', { ...least.infer, keep: '1h' });
      await server.stop();
      clock.pass(2 * hour);
      rewrite(server, id, (record) => {
        // As after another boot of the machine, or on a system that does not report its boots.
        record.expiresAtBootTime = before;
      });
      await server.start();
      expect(await left(id)).toBe(120);
    },
  );

  test.runIf(process.platform === 'linux')(
    'A clock that is set forward does not shorten any period',
    async () => {
      const { id } = await api.run('infer', { ...least.infer, keep: '1h' });
      await server.stop();
      clock.set(3 * 24 * hour);
      await server.start();
      expect(await left(id)).toBe(hour);
    },
  );

  test('A restart with a clock that was set back does not keep a job longer than it asked for', async () => {
    const { id } = await api.run('infer', { ...least.infer, keep: '1h' });
    await server.stop();
    clock.set(-week);
    await server.start();
    expect(await left(id)).toBe(hour);
  });

  test('A restart sets aside a record with a time beyond the range of dates', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, keep: '1h', ...steps(`wait=${gate.path}`) });
    await server.stop();
    rewrite(server, id, (record) => {
      (record.request as Record<string, unknown>).keep = 1e300;
    });
    await server.start();
    const { jobs } = await api.json<{ jobs: { job_id: string }[] }>('/jobs');
    expect(jobs.map(({ job_id }) => job_id)).not.toContain(id);
    gate.open();
  });
});
