import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { sharedServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { zipOf } from '../../support/zip.mjs';

const onCpu = { cpu: '1' };
const endless = {
  ...least.infer,
  ...onCpu,
  ...steps('print=ready', 'write=part.txt:half', 'wait=/nobody/opens/this'),
};
const dataset = { dataset: file('data.zip', zipOf({ a: 'b' })), ...onCpu };

describe('a server with --max-run-time and --max-fine-tune-time', () => {
  const clock = new TestClock();
  const server = sharedServer({ clock, flags: ['--max-run-time', '3s', '--max-fine-tune-time', '1h'] });
  const { api } = server;

  test('A server with --max-run-time and --max-fine-tune-time ends a job that runs longer, explains that, and keeps its output', async () => {
    const id = await api.running('infer', endless, 'ready');
    clock.pass(2.999);
    expect((await api.job(id)).status).toBe('running');
    clock.pass(0.001);
    const { log, view } = await api.ended(id);
    const error = 'Ended at its time limit: it may run for 3s';
    expect(view).toMatchObject({ status: 'error', error, time_limit: 3, left_files: 2 });
    expect(log).toContain(`data: [remote-app] ${error}\n`);
    expect(log).toContain(`data: __ERROR__ ${error}\n\n`);
    expect([
      view.run_seconds,
      Date.parse(view.finished_at ?? '') - Date.parse(view.started_at ?? ''),
    ]).toEqual([3, 3000]);
    expect((await api.fetch(`/jobs/${id}/result?partial=1`)).status).toBe(200);
  });

  test('A server with --max-run-time and --max-fine-tune-time lets a job ask for less, and refuses more, zero and invalid times', async () => {
    const id = await api.running('infer', { ...endless, time_limit: '1s' }, 'ready');
    clock.pass(1);
    const { view } = await api.ended(id);
    expect(view).toMatchObject({ error: 'Ended at its time limit: it may run for 1s', time_limit: 1 });
    expect((await api.run('infer', { ...least.infer, ...onCpu, time_limit: '2' })).view.status).toBe('done');
    for (const [asked, sentence] of [
      ['4s', "Field 'time_limit' is at most 3s on this server, got 4s"],
      ['0', "Field 'time_limit' must be at least 1s, got 0s"],
      ['soon', expect.stringContaining("Field 'time_limit' must be a time such as 90s")],
    ] as const)
      expect(await api.refused('infer', { ...endless, time_limit: asked })).toEqual([422, sentence]);
    const most = await api.run('infer', { ...least.infer, ...onCpu, time_limit: 'max' });
    expect(most.view.time_limit).toBe(3);
  });

  test('A server with --max-run-time and --max-fine-tune-time has another limit for fine-tuning', async () => {
    expect((await api.run('fine_tune', dataset)).view.time_limit).toBe(3600);
    expect((await api.run('fine_tune', { ...dataset, time_limit: '30m' })).view.time_limit).toBe(1800);
    expect(await api.refused('fine_tune', { ...dataset, time_limit: '2h' })).toEqual([
      422,
      "Field 'time_limit' is at most 1h on this server, got 2h",
    ]);
    expect(await api.json('/limits')).toMatchObject({ max_run_time: 3, max_fine_tune_time: 3600 });
  });

  test('A server with --max-run-time and --max-fine-tune-time never hands the field to the app', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...onCpu, time_limit: '2s' });
    const { argv } = await api.recorded(id);
    // Where this repository lies may have the word in its path.
    expect(argv.filter((each) => !each.startsWith('/')).join(' ')).not.toMatch(/time/);
  });
});

describe('a server without a limit', () => {
  const clock = new TestClock();
  const server = sharedServer({ clock });
  const { api } = server;

  test('A server without a limit lets a job run for as long as it takes, or as it asks for', async () => {
    expect((await api.run('infer', { ...least.infer, ...onCpu })).view.time_limit).toBeNull();
    const id = await api.running('infer', { ...endless, time_limit: '1s' }, 'ready');
    clock.pass(1);
    expect((await api.ended(id)).view.error).toMatch(/time limit/);
    expect(await api.json('/limits')).toMatchObject({ max_run_time: null, max_fine_tune_time: null });
  });

  test('A server without a limit counts the time that a job ran under an earlier server', async () => {
    const id = await api.running('infer', { ...endless, time_limit: '1h' }, 'ready');
    clock.pass(1800);
    await server.stop();
    clock.pass(1200);
    await server.start();
    clock.pass(599);
    expect((await api.job(id)).status).toBe('running');
    clock.pass(1);
    expect((await api.ended(id)).view).toMatchObject({
      error: 'Ended at its time limit: it may run for 1h',
      run_seconds: 3600,
    });
  });
});

describe('a server with one CPU slot', () => {
  const clock = new TestClock();
  const server = sharedServer({ clock, flags: ['--cpu-slots', '1'] });
  const { api } = server;

  test('A server with one CPU slot does not count the time that a job waits', async () => {
    const first = await api.running('infer', { ...endless, time_limit: '3s' }, 'ready');
    const { job_id: second } = await api.accepted('infer', { ...least.infer, ...onCpu, time_limit: '2s' });
    await api.reaches(second, 'waiting');
    clock.pass(3);
    expect((await api.ended(first)).view.error).toMatch(/time limit/);
    const { view } = await api.ended(second);
    expect([view.status, view.error]).toEqual(['done', null]);
    // It waited for longer than it may run.
    expect(Date.parse(view.started_at ?? '') - Date.parse(view.created_at)).toBe(3000);
  });
});

describe('infer --time-limit', () => {
  const server = sharedServer({ flags: ['--max-run-time', '1h'] });
  let cli: Cli;
  let env: NodeJS.ProcessEnv;
  beforeAll(async () => {
    cli = await Cli.create();
    env = { REMOTE_APP_SERVER: server.url, REMOTE_APP_APP: 'probe' };
    await cli.run(['init', 'x'], env);
  });
  afterAll(() => cli[Symbol.asyncDispose]());

  test('infer --time-limit asks for a time limit', async () => {
    const infer = ['infer', 'x/app.json', '--cpu', '1', '--set', 'wait=/nobody/opens/this'];
    const { code, stderr } = await cli.run([...infer, '--time-limit', '1s'], env);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('Ended at its time limit: it may run for 1s'),
    ]);
  });

  test('infer --time-limit is checked before anything is sent', async () => {
    const { code, stderr } = await cli.run(['infer', 'x/app.json', '--time-limit', '2h'], env);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`--time-limit 2h is too long: on ${server.url} a job may run for at most 1h`),
    ]);
  });
});
