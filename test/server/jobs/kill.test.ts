import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { linesOf } from '../../support/log-lines.mjs';
import { processesNaming, processesOfJob } from '../../support/processes.js';
import { isRunning } from '../../support/processes.mjs';
import { sharedServer, type TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const flags = ['--cpu-slots', '2'];

/** A probe that takes these steps, then waits until the test ends. */
const waiting = (server: TestServer, ...taken: string[]) => ({
  ...least.infer,
  ...steps(...taken, 'print=ready', `wait=${server.gate().path}`),
});

describe('killing a job', () => {
  const server = sharedServer({ flags });
  const { api } = server;
  const busy = () => waiting(server);

  test('Killing a job ends its open log stream with the reason', async () => {
    const { job_id: id } = await api.accepted('infer', busy());
    await using log = await api.follow(id);
    await log.until('ready');
    await api.kill(id);
    expect((await log.end()).endsWith('data: ready\n\ndata: __ERROR__ Killed by user\n\n')).toBe(true);
  });

  test('Killing a job that waits takes it out of the queue: it never starts', async () => {
    const first = await api.running('infer', busy(), 'ready');
    const { job_id: wide } = await api.accepted('infer', { ...busy(), cpu: '2' });
    const { job_id: behind } = await api.accepted('infer', { ...least.infer });
    expect((await api.reaches(wide, 'waiting')).queue_position).toBe(1);
    expect(await api.kill(wide)).toMatchObject({ status: 'killed' });
    expect((await api.job(wide)).started_at).toBeNull();
    expect(await api.log(wide)).not.toContain('Starting');
    // The job behind it moved up, and runs in the slot beside the first.
    expect((await api.ended(behind)).view.status).toBe('done');
    await api.kill(first);
  });

  test('Killing a job that has ended changes nothing, however often', async () => {
    const { id, view } = await api.run('infer', least.infer);
    for (let round = 0; round < 2; round += 1) {
      expect(await api.kill(id)).toEqual({ job_id: id, status: 'done', message: expect.any(String) });
    }
    expect(await api.job(id)).toEqual(view);
    expect((await api.result(id)).has('probe.json')).toBe(true);
  });

  test('Killing a job whose result is being packed ends it without a result, not even a partial one', async () => {
    const { job_id: id } = await api.accepted('infer', {
      ...least.infer,
      ...steps('zeros=big.raw:400000000'),
    });
    const directory = server.jobDirectory(id);
    await until('the packing has begun', () => existsSync(path.join(directory, 'result.zip.partial')));
    expect((await api.job(id)).status).toBe('running');
    expect(await api.kill(id)).toMatchObject({ status: 'killed' });
    expect((await api.fetch(`/jobs/${id}/result`)).status).toBe(409);
    expect(readdirSync(directory).filter((name) => name.startsWith('result'))).toEqual([]);
  });

  test('Killing a job several times at once is answered each time', async () => {
    const id = await api.running('infer', busy(), 'ready');
    const replies = await Promise.all([api.kill(id), api.kill(id), api.kill(id)]);
    expect(replies.map(({ status }) => status)).toEqual(['killed', 'killed', 'killed']);
    expect((await api.kill(id)).status).toBe('killed');
  });
});

const server = sharedServer({ runners: true, flags });
const { api } = server;
const busy = (...taken: string[]) => waiting(server, ...taken);

describe('killing the processes of a job', () => {
  test('Killing a running job ends it, and the answer, the status, the log and the result say so', async () => {
    const id = await api.running('infer', busy('write=half.txt:half'), 'ready');
    const response = await api.fetch(`/jobs/${id}/kill`, { method: 'POST' });
    expect([response.status, await response.json()]).toEqual([
      200,
      { job_id: id, status: 'killed', message: expect.any(String) },
    ]);
    expect(processesOfJob(id)).toEqual([]);
    expect(await api.job(id)).toMatchObject({ status: 'killed', error: 'Killed by user' });
    expect(linesOf(await api.log(id)).at(-1)).toBe('__ERROR__ Killed by user');
    const result = await api.fetch(`/jobs/${id}/result`);
    expect([result.status, await result.json()]).toEqual([
      409,
      { job_id: id, status: 'killed', error: 'Killed by user', kind: null },
    ]);
  });

  test('Killing a job whose directory was removed ends it, and so does removing the directory', async () => {
    const [first, second] = await Promise.all([
      api.running('infer', busy(), 'ready'),
      api.running('infer', busy(), 'ready'),
    ]);
    for (const id of [first, second]) rmSync(server.jobDirectory(id), { recursive: true });
    expect(await api.kill(first)).toMatchObject({ status: 'killed' });
    expect((await api.reaches(second, 'error')).error).toContain('directory was removed');
    expect([...processesOfJob(first), ...processesOfJob(second)]).toEqual([]);
    expect((await api.run('infer', { ...least.infer, cpu: '2' })).view.status).toBe('done');
  });

  test.for(['the runner', 'the command', 'both'])(
    'A kill ends a job while %s is stopped',
    async (stopped) => {
      const id = await api.running('infer', busy(), 'ready');
      const { runner, command } = JSON.parse(
        readFileSync(path.join(server.jobDirectory(id), 'runner.json'), 'utf8'),
      ) as { runner: { pid: number }; command: { pid: number } };
      if (stopped !== 'the command') process.kill(runner.pid, 'SIGSTOP');
      if (stopped !== 'the runner') process.kill(command.pid, 'SIGSTOP');
      expect(await api.kill(id)).toMatchObject({ status: 'killed' });
      expect([runner.pid, command.pid].filter(isRunning)).toEqual([]);
    },
  );

  test('Killing a job whose runner was killed ends its command, even one that cleared its environment', async () => {
    // Its process has its own session, no environment, and the job's pipe only as the shell's copy of stdout.
    const mark = `600.${process.pid}`;
    const script = `exec env -i setsid -w sh -c "trap : TERM; sleep ${mark} >/dev/null 2>&1"`;
    const id = await api.running(
      'infer',
      { ...least.infer, ...steps('print=ready', `shell=${script}`) },
      'ready',
    );
    const { runner, command } = JSON.parse(
      readFileSync(path.join(server.jobDirectory(id), 'runner.json'), 'utf8'),
    ) as { runner: { pid: number }; command: { pid: number } };
    process.kill(runner.pid, 'SIGKILL');
    expect((await api.reaches(id, 'error')).error).toContain('was killed');
    expect(isRunning(command.pid)).toBe(false);
    expect(processesNaming(mark)).toEqual([]);
  });

  test('Killing a job waits 3 s for processes that ignore SIGTERM, and not for others; all are gone when the answer comes', async () => {
    const form = busy('stubborn=', 'child=', 'stray=');
    const [id, obedient] = await Promise.all([
      api.running('infer', form, 'ready'),
      api.running('infer', busy(), 'ready'),
    ]);
    const before = await until('the child and the stray run', () => {
      const pids = processesOfJob(id);
      return pids.length >= 3 ? pids : null;
    });
    const start = performance.now();
    const answered: string[] = [];
    await Promise.all(
      [id, obedient].map(async (each) => {
        expect((await api.kill(each)).status).toBe('killed');
        answered.push(each);
      }),
    );
    const took = performance.now() - start;
    expect(answered).toEqual([obedient, id]);
    expect(before.filter(isRunning)).toEqual([]);
    expect(processesOfJob(id)).toEqual([]);
    expect(took).toBeGreaterThan(2900);
    expect(took).toBeLessThan(15_000);
    expect(linesOf(await api.log(id))).toContain('not yet');
  });
});

describe('the end of a job', () => {
  test('The end of a job leaves no process that it forked, inside or outside its process group', async () => {
    const { id, view } = await api.run('infer', { ...least.infer, ...steps('stray=', 'print=parent ends') });
    expect(view.status).toBe('done');
    expect(processesOfJob(id)).toEqual([]);
  });

  test('The end of a job does not wait for a stray that holds the output open', async () => {
    const start = performance.now();
    const { log } = await api.run('infer', { ...least.infer, ...steps('stray=', 'print=last') });
    expect(linesOf(log)).toContain('last');
    expect(performance.now() - start).toBeLessThan(5000);
  });

  test('A job whose runner was killed ends with an error, and none of its processes is left', async () => {
    const id = await api.running('infer', busy('stray='), 'ready');
    const record = path.join(server.dataDirectory, 'jobs', id, 'runner.json');
    const { runner } = JSON.parse(readFileSync(record, 'utf8'));
    process.kill(runner.pid, 'SIGKILL');
    const { view } = await api.ended(id);
    expect(view).toMatchObject({ status: 'error', error: expect.stringContaining('runner') });
    expect(processesOfJob(id)).toEqual([]);
  });
});
