import { describe, expect, test } from 'vitest';
import { file } from '../../../support/form.mjs';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
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
  });
});
