import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { processesOfJob } from '../../support/processes.js';
import { sharedServer } from '../../support/server.js';
import { zipOf } from '../../support/zip.mjs';

const onCpu = { cpu: '1' };
const endless = {
  ...least.infer,
  ...onCpu,
  ...steps('print=ready', 'write=part.txt:half', 'wait=/nobody/opens/this'),
};
const dataset = { dataset: file('data.zip', zipOf({ a: 'b' })), ...onCpu };

describe('a server with --max-run-time and --max-fine-tune-time', () => {
  const server = sharedServer({
    ownProcess: true,
    flags: ['--max-run-time', '3s', '--max-fine-tune-time', '1h'],
  });
  const { api } = server;

  test('ends a job that runs for longer, with a sentence of its own, and keeps what it left', async () => {
    const { id, log, view } = await api.run('infer', endless);
    const error = 'Ended at its time limit: it may run for 3s';
    expect(view).toMatchObject({ status: 'error', error, time_limit: 3, left_files: 2 });
    expect(log).toContain(`data: [remote-app] ${error}\n`);
    expect(log).toContain(`data: __ERROR__ ${error}\n\n`);
    const ran = Date.parse(view.finished_at ?? '') - Date.parse(view.started_at ?? '');
    expect(ran).toBeGreaterThan(2900);
    expect(processesOfJob(id)).toEqual([]);
    expect((await api.fetch(`/jobs/${id}/result?partial=1`)).status).toBe(200);
  });

  test('lets a job ask for less, and refuses more, nothing, and what is no time', async () => {
    const { view } = await api.run('infer', { ...endless, time_limit: '1s' });
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

  test('has another limit for fine-tuning', async () => {
    expect((await api.run('fine_tune', dataset)).view.time_limit).toBe(3600);
    expect((await api.run('fine_tune', { ...dataset, time_limit: '30m' })).view.time_limit).toBe(1800);
    expect(await api.refused('fine_tune', { ...dataset, time_limit: '2h' })).toEqual([
      422,
      "Field 'time_limit' is at most 1h on this server, got 2h",
    ]);
    expect(await api.json('/limits')).toMatchObject({ max_run_time: 3, max_fine_tune_time: 3600 });
  });

  test('never hands the field to the app', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...onCpu, time_limit: '2s' });
    expect((await api.recorded(id)).argv.join(' ')).not.toMatch(/time/);
  });
});

describe('a server without', () => {
  const server = sharedServer({ ownProcess: true });
  const { api } = server;
  let cli: Cli;
  beforeAll(async () => {
    cli = await Cli.create();
  });
  afterAll(() => cli[Symbol.asyncDispose]());

  test('lets a job run for as long as it takes, or as it asks for itself', async () => {
    expect((await api.run('infer', { ...least.infer, ...onCpu })).view.time_limit).toBeNull();
    expect((await api.run('infer', { ...endless, time_limit: '1s' })).view.error).toMatch(/time limit/);
    expect(await api.json('/limits')).toMatchObject({ max_run_time: null, max_fine_tune_time: null });
  });

  test('counts what a job ran under an earlier server', async () => {
    const { job_id: id } = await api.accepted('infer', { ...endless, time_limit: '1h' });
    await api.reaches(id, 'running');
    await server.crash();
    // As if it had run for nearly an hour: a second of it is left.
    const record = path.join(server.jobDirectory(id), 'job.json');
    const { limitAtBootTime, ...more } = JSON.parse(readFileSync(record, 'utf8'));
    expect(limitAtBootTime.seconds).toBeGreaterThan(3590);
    const left = { ...limitAtBootTime, seconds: limitAtBootTime.seconds - 3599 };
    writeFileSync(record, JSON.stringify({ ...more, limitAtBootTime: left }));
    await server.start();
    expect((await api.ended(id)).view.error).toBe('Ended at its time limit: it may run for 1h');
  });

  test('infer --time-limit asks for it', async () => {
    const env = { REMOTE_APP_SERVER: server.url, REMOTE_APP_APP: 'probe' };
    await cli.run(['init', 'x'], env);
    const infer = ['infer', 'x/app.json', '--cpu', '1', '--set', 'wait=/nobody/opens/this'];
    const { code, stderr } = await cli.run([...infer, '--time-limit', '1s'], env);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('Ended at its time limit: it may run for 1s'),
    ]);
  });
});

describe('a server with one CPU slot', () => {
  const server = sharedServer({ ownProcess: true, flags: ['--cpu-slots', '1'] });
  const { api } = server;

  test('does not count the time that a job waits', async () => {
    const first = await api.accepted('infer', { ...endless, time_limit: '3s' });
    const second = await api.accepted('infer', { ...least.infer, ...onCpu, time_limit: '2s' });
    expect((await api.ended(first.job_id)).view.error).toMatch(/time limit/);
    const { view } = await api.ended(second.job_id);
    expect([view.status, view.error]).toEqual(['done', null]);
    // It waited for longer than it may run.
    expect(Date.parse(view.started_at ?? '') - Date.parse(view.created_at)).toBeGreaterThan(2000);
  });
});

describe('before anything is sent', () => {
  const server = sharedServer({ ownProcess: true, flags: ['--max-run-time', '1h'] });

  test('infer checks what the server says', async () => {
    await using cli = await Cli.create();
    const env = { REMOTE_APP_SERVER: server.url, REMOTE_APP_APP: 'probe' };
    await cli.run(['init', 'x'], env);
    const { code, stderr } = await cli.run(['infer', 'x/app.json', '--time-limit', '2h'], env);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`--time-limit 2h is too long: on ${server.url} a job may run for at most 1h`),
    ]);
  });
});
