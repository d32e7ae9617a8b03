import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, printBytes, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import type { LogFollower } from '../../support/log-stream.js';
import { RawConnection } from '../../support/raw-http.js';
import { apps, sharedServer } from '../../support/server.js';

const server = sharedServer({
  apps: [apps.probe, apps.shell],
  flags: ['--max-jobs', '250', '--cpu-slots', '1'],
});
const { api } = server;

describe('the streams of one job', () => {
  test('are limited to one: another is answered 429 with Retry-After', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await using log = await api.follow(id);
    const second = await api.fetch(`/jobs/${id}/logs`);
    expect(second.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await refusal(second)).toEqual([429, expect.stringContaining(id)]);
    gate.open();
    await log.end();
    expect((await api.fetch(`/jobs/${id}/logs`)).status).toBe(200);
  });

  test('release their slot as soon as the client is gone', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    for (let round = 0; round < 5; round += 1) {
      const connection = await RawConnection.open(server.url);
      connection.write(`GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      await connection.until(/data: probe infer/);
      await connection.destroy();
      // Tried only once, because a client reconnects at once.
      await using log = await api.tryFollow(id);
      expect(log.response.status).toBe(200);
      await log.until('probe infer');
    }
  });

  test('leave room for a HEAD', async () => {
    const { id } = await api.run('infer', least.infer);
    await api.fetch(`/jobs/${id}/logs`, { method: 'HEAD' });
    expect((await api.fetch(`/jobs/${id}/logs`)).status).toBe(200);
  });
});

describe('the log as text', () => {
  test('is the log so far, also while it is streamed, whole or by ranges', async () => {
    const gate = server.gate();
    const form = {
      ...least.infer,
      ...steps('print=\u00fcber', printBytes('10 %\r'), `wait=${gate.path}`, 'print=b'),
    };
    const id = await api.running('infer', form, '10 %');
    await using log = await api.follow(id);
    const get = (range?: string) => api.fetch(`/jobs/${id}/log`, range ? { headers: { Range: range } } : {});
    const whole = await get();
    const text = await whole.text();
    const bytes = Buffer.from(text);
    expect(Object.fromEntries(whole.headers)).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': String(bytes.length),
      'accept-ranges': 'bytes',
    });
    expect(text).toMatch(/^\[remote-app\] Remote job .*\nprobe infer\n\u00fcber\n10 %\r\n$/s);
    const size = bytes.length;
    for (const [range, from, to] of [
      ['bytes=3-9', 3, 10],
      ['bytes=5-', 5, size],
      ['bytes=-7', size - 7, size],
      ['bytes=-99999', 0, size],
      [`bytes=${size - 1}-99999`, size - 1, size],
    ] as const) {
      const part = await get(range);
      expect([range, part.status, part.headers.get('content-range')]).toEqual([
        range,
        206,
        `bytes ${from}-${to - 1}/${size}`,
      ]);
      expect(Buffer.from(await part.arrayBuffer())).toEqual(bytes.subarray(from, to));
    }
    for (const range of ['bytes=9-3', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=-'])
      expect([range, await (await get(range)).text()]).toEqual([range, text]);
    const beyond = await get(`bytes=${size}-`);
    expect(beyond.headers.get('content-range')).toBe(`bytes */${size}`);
    expect((await refusal(beyond))[0]).toBe(416);
    const head = await api.fetch(`/jobs/${id}/log`, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([
      200,
      String(size),
      '',
    ]);
    gate.open();
    await log.end();
    expect(await (await get(`bytes=${size}-`)).text()).toMatch(/^b\n\[remote-app\] Result/);
    expect((await api.fetch('/jobs/0123456789ab/log')).status).toBe(404);
  });

  test('says why it cannot be shown where the job has replaced it', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps('shell=ln -sf /etc/passwd ../log') });
    const answer = await api.fetch(`/jobs/${id}/log`);
    expect([answer.status, await answer.text()]).toEqual([
      200,
      expect.stringMatching(/was removed or replaced/),
    ]);
  });
});

describe('all streams', () => {
  test('are limited to 200: the next is answered 429, until one is closed', async () => {
    const gate = server.gate();
    await api.accepted('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const submit = () => api.accepted('infer', { inputs: file('ct.nii') }, { app: 'shell' });
    const jobs: string[] = [];
    for (let count = 0; count < 201; count += 1) jobs.push((await submit()).job_id);
    const streams: LogFollower[] = [];
    for (const id of jobs.slice(0, 200)) streams.push(await api.follow(id));

    const last = jobs[200] ?? '';
    const refused = await api.fetch(`/jobs/${last}/logs`);
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await refusal(refused)).toEqual([429, expect.stringContaining('200')]);
    await streams.pop()?.[Symbol.asyncDispose]();
    await using followed = await api.follow(last);
    await followed.until(/^\[remote-app\] Waiting for a CPU slot: position 201/);
    await Promise.all(streams.map((each) => each[Symbol.asyncDispose]()));
    // A server that stops has ten seconds for it, which is too little for so many jobs on a busy disk.
    await Promise.all(jobs.map((id) => api.kill(id)));
  });
});
