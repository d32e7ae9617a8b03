import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { linesOf } from '../../support/log-lines.mjs';
import { appLines } from '../../support/log-stream.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { TestClock } from '../../support/test-clock.js';
import { until } from '../../support/until.mjs';

const oneAtATime = { flags: ['--cpu-slots', '1'] };

describe('a server that was killed and started again', () => {
  test('A server that was killed and started again finishes running and waiting jobs, each once, with complete logs', async () => {
    await using server = await TestServer.start({ ownProcess: true, ...oneAtATime });
    const { api } = server;
    const gate = server.gate();
    const form = (name: string) => ({
      inputs: file(`${name}.nii`, name),
      ...steps(`print=${name} begins`, `wait=${gate.path}`, `print=${name} ends`),
    });
    const first = await api.running('infer', form('a'), 'a begins');
    const second = (await api.accepted('infer', form('b'))).job_id;
    const third = (await api.accepted('infer', form('c'))).job_id;
    await server.crash();
    await server.start();
    expect(server.stderr).toContain('3 active');

    expect((await api.job(first)).status).toBe('running');
    expect((await api.reaches(second, 'waiting')).queue_position).toBe(1);
    expect((await api.reaches(third, 'waiting')).queue_position).toBe(2);
    gate.open();
    for (const [id, name] of [
      [first, 'a'],
      [second, 'b'],
      [third, 'c'],
    ] as const) {
      const { log, view } = await api.ended(id);
      expect(view).toMatchObject({ status: 'done', error: null });
      expect(appLines(log)).toEqual(['probe infer', `${name} begins`, `${name} ends`]);
      expect(linesOf(log)[0]).toBe(`[remote-app] Remote job ${id} accepted: infer on probe`);
      const { files } = await api.recorded(id);
      expect(files['--inputs']).toEqual([[[expect.stringContaining(`${name}.nii`), name]]]);
    }
  });

  test('A server that was killed and started again reads the end of a job that ended while there was no server', async () => {
    await using server = await TestServer.start({
      runners: true,
      flags: [...oneAtATime.flags, '--on-exit', 'keep'],
    });
    const { api } = server;
    const gate = server.gate();
    const taken = ['print=begins', `wait=${gate.path}`, 'print=ends', 'write=result.txt:here'];
    const id = await api.running('infer', { ...least.infer, ...steps(...taken) }, 'begins');
    const failing = { ...least.infer, ...steps(`wait=${gate.path}`, 'exit=7') };
    const later = (await api.accepted('infer', failing)).job_id;
    await server.stop();
    gate.open();
    await until('the job has ended', () => existsSync(path.join(server.jobDirectory(id), 'exit.json')));
    await until('the runner has ended', () => server.processes().length === 0);
    await server.start();
    const { view, log } = await api.ended(id);
    expect(view.status).toBe('done');
    expect(appLines(log)).toEqual(['probe infer', 'begins', 'ends']);
    expect(String((await api.result(id)).get('result.txt'))).toBe('here');
    expect((await api.ended(later)).view).toMatchObject({
      status: 'error',
      error: 'Subprocess failed (exit code 7)',
    });
  });

  test('A server that was killed and started again counts only the time that the command ran as run time', async () => {
    const clock = new TestClock();
    await using server = await TestServer.start({ clock });
    const { api } = server;
    const { id, gate } = await server.heldJob();
    clock.pass(10);
    await server.stop();
    clock.pass(10);
    gate.open();
    await server.scriptEnded(id);
    clock.pass(10);
    await server.start();
    const { view } = await api.ended(id);
    const startPlus = (seconds: number) =>
      new Date(Date.parse(view.started_at ?? '') + seconds * 1000).toISOString();
    expect([view.run_seconds, view.finished_at]).toEqual([20, startPlus(30)]);
    const used = readFileSync(path.join(server.dataDirectory, 'usage'), 'utf8');
    expect(JSON.parse(used.trim())).toMatchObject({ job_id: id, time: startPlus(20) });
    // The next server has it from the record.
    await server.restart();
    expect((await api.job(id)).run_seconds).toBe(20);
  });

  test('A server that was killed and started again repacks a result whose packing was interrupted', async () => {
    await using server = await TestServer.start();
    const { api } = server;
    const gate = server.gate();
    const taken = steps('print=begins', `wait=${gate.path}`, 'zeros=big.raw:4000000', 'write=a.txt:a');
    const id = await api.running('infer', { ...least.infer, ...taken }, 'begins');
    await server.stop();
    gate.open();
    await server.scriptEnded(id);
    writeFileSync(path.join(server.jobDirectory(id), 'result.zip.partial'), 'PK');
    await server.start();
    const { view, log } = await api.ended(id);
    expect(view.status).toBe('done');
    expect(appLines(log)).toEqual(['probe infer', 'begins']);
    const files = await api.result(id);
    expect([...files].map(([name, { length }]) => [name, length]).sort()).toEqual([
      ['a.txt', 1],
      ['big.raw', 4_000_000],
      ['probe.json', expect.any(Number)],
    ]);
    expect(existsSync(path.join(server.jobDirectory(id), 'result.zip.partial'))).toBe(false);
  });

  test('A server that was killed and started again still has the results, the logs and the failures of jobs that had ended', async () => {
    await using server = await TestServer.start();
    const { api } = server;
    const done = await api.run('infer', { ...least.infer, ...steps('write=a.txt:kept') });
    const failed = await api.run('infer', { ...least.infer, ...steps('exit=2') });
    await server.restart();
    expect(String((await api.result(done.id)).get('a.txt'))).toBe('kept');
    expect(await api.log(done.id)).toBe(done.log);
    expect(await api.log(failed.id)).toBe(failed.log);
    // Its directory is measured after its end.
    const { expires_at: first, bytes_kept: _before, ...view } = done.view;
    const { expires_at: second, bytes_kept: _after, ...after } = await api.job(done.id);
    expect(after).toEqual(view);
    // Nobody could fetch it meanwhile, so its time starts again.
    expect(Date.parse(second ?? '')).toBeGreaterThan(Date.parse(first ?? ''));
    expect((await api.fetch(`/jobs/${failed.id}/result`)).status).toBe(500);
    const { jobs } = await api.json<{ jobs: { job_id: string }[] }>('/jobs');
    expect(jobs.map(({ job_id }) => job_id)).toEqual([failed.id, done.id]);
  });

  test('A server can kill a job that an earlier server started', async () => {
    await using server = await TestServer.start();
    const { api } = server;
    const form = { ...least.infer, ...steps(`wait=${server.gate().path}`) };
    const id = await api.running('infer', form);
    await server.restart();
    expect((await api.kill(id)).status).toBe('killed');
    expect(linesOf(await api.log(id)).at(-1)).toBe('__ERROR__ Killed by user');
  });

  test('A server that was killed and started again fails the job whose app is no longer on its allowlist, and says why', async () => {
    await using root = await temporary();
    const allowlist = path.join(root.path, 'apps.json');
    writeFileSync(allowlist, JSON.stringify({ apps: [{ name: 'probe', source: apps.probe }] }));
    await using server = await TestServer.start({ apps: [allowlist], ...oneAtATime });
    const { api } = server;
    const { gate } = await server.heldJob();
    const { job_id: id } = await api.accepted('infer', least.infer);
    await server.stop();
    writeFileSync(allowlist, '{"apps": []}');
    await server.start();
    gate.open();
    const { view } = await api.ended(id);
    expect(view).toMatchObject({ status: 'error', error: expect.stringContaining("'probe'") });
    expect(await refusal(await api.submit('infer', least.infer))).toEqual([404, "Unknown app 'probe'"]);
  });
});
