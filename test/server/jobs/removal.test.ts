import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { unzip } from '../../support/unzip.mjs';

const server = sharedServer();
const { api } = server;

const remove = (id: string) => api.fetch(`/jobs/${id}`, { method: 'DELETE' });

describe('removing a job that has ended', () => {
  test('Removing a job that has ended removes all its files at once, and 410 on every route says when', async () => {
    const headers = { 'Idempotency-Key': 'again' };
    const { id } = await api.run('infer', least.infer, { headers });
    const before = Date.now();
    const response = await remove(id);
    expect([response.status, await response.json()]).toEqual([200, { job_id: id, status: 'removed' }]);
    expect(existsSync(server.jobDirectory(id))).toBe(false);
    for (const [method, where] of [
      ['GET', ''],
      ['GET', '/logs'],
      ['GET', '/result'],
      ['POST', '/kill'],
      ['DELETE', ''],
    ] as const) {
      const [status, detail] = await refusal(await api.fetch(`/jobs/${id}${where}`, { method }));
      const when = /^Job \w+ was removed at (\S+Z); submit it again$/.exec(detail)?.[1] ?? '';
      expect([status, Date.parse(when)]).toEqual([410, expect.any(Number)]);
      expect(Date.parse(when)).toBeGreaterThanOrEqual(before);
    }
    expect(await api.json('/jobs')).toEqual({ jobs: [] });
    expect((await api.run('infer', least.infer, { headers })).id).not.toBe(id);
  });

  test('A failed job and a killed job can be removed, and the next server knows that they were', async () => {
    const failed = await api.run('infer', { ...least.infer, ...steps('exit=1') });
    const killed = await api.running('infer', { ...least.infer, ...steps(`wait=${server.gate().path}`) });
    await api.kill(killed);
    for (const id of [failed.id, killed]) expect((await remove(id)).status).toBe(200);
    await server.restart();
    for (const id of [failed.id, killed]) {
      expect(await refusal(await api.fetch(`/jobs/${id}`))).toEqual([
        410,
        expect.stringContaining(`Job ${id} was removed at `),
      ]);
    }
  });

  test('Removing a job that has ended twice at once removes it once', async () => {
    const { id } = await api.run('infer', least.infer);
    const statuses = (await Promise.all([remove(id), remove(id)])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 410]);
  });
});

describe('a job that cannot be removed', () => {
  test('An active job cannot be removed, and continues', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    expect(await refusal(await remove(id))).toEqual([
      409,
      `Job ${id} is running; kill it first, or wait for its end`,
    ]);
    gate.open();
    expect((await api.ended(id)).view.status).toBe('done');
  });
});

describe('a download under way', () => {
  const size = 30 * 2 ** 20;

  test.for(['kept as an archive', 'packed while it is sent'])(
    'A download under way of a result that is %s is not cut by a removal',
    async (how) => {
      const written = steps(`fill=noise.bin:${size}`, 'write=z.txt:the last file');
      const { id } = await api.run('infer', { ...least.infer, ...written });
      if (how !== 'kept as an archive') rmSync(path.join(server.jobDirectory(id), 'result.zip'));
      await using slow = await RawConnection.open(server.url);
      slow.readOneChunk();
      slow.write(`GET /jobs/${id}/result HTTP/1.0\r\nHost: localhost\r\n\r\n`);
      await slow.until(/\r\n\r\n/);
      expect((await remove(id)).status).toBe(200);
      expect((await api.fetch(`/jobs/${id}/result`)).status).toBe(410);
      slow.socket.resume();
      await until('the download is over', () => slow.isClosed);
      const body = Buffer.from(slow.received.slice(slow.received.indexOf('\r\n\r\n') + 4), 'latin1');
      const files = await unzip(body);
      expect([files.get('noise.bin')?.length, String(files.get('z.txt'))]).toEqual([size, 'the last file']);
      await until('its directory is removed', () => !existsSync(server.jobDirectory(id)));
    },
  );
});
