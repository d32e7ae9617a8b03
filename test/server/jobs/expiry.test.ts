import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { unzip } from '../../support/unzip.mjs';

const server = sharedServer({ ownProcess: true, flags: ['--grace', '1'] });
const { api } = server;

/** Milliseconds by which a timer may fire before the clock says so. */
const early = 5;

const isExpired = (id: string) =>
  until(`job ${id} expires`, async () => (await api.fetch(`/jobs/${id}`)).status === 410);

describe('a job whose grace period is over', () => {
  test('is removed with all its files, and 410 on every route says when', async () => {
    const { id, view } = await api.run('infer', least.infer);
    expect(Date.parse(view.expires_at ?? '') - Date.parse(view.finished_at ?? '')).toBeLessThan(1100);
    await isExpired(id);
    const now = Date.now();
    for (const [method, where] of [
      ['GET', ''],
      ['GET', '/logs'],
      ['GET', '/result'],
      ['POST', '/kill'],
    ] as const) {
      const [status, detail] = await refusal(await api.fetch(`/jobs/${id}${where}`, { method }));
      expect(status).toBe(410);
      const when = Date.parse(/\d{4}-\S+Z/.exec(detail)?.[0] ?? '');
      expect(when).toBeGreaterThanOrEqual(Date.parse(view.expires_at ?? '') - early);
      expect(when).toBeLessThanOrEqual(now);
    }
    await until('its directory is removed', () => !existsSync(server.jobDirectory(id)));
    expect(await api.json('/jobs')).toEqual({ jobs: [] });
  });

  test('is not removed before that', async () => {
    const { id, view } = await api.run('infer', least.infer);
    await isExpired(id);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(view.expires_at ?? '') - early);
  });

  test('is removed whether it is done, failed or was killed', async () => {
    const failed = await api.run('infer', { ...least.infer, ...steps('exit=1') });
    const killed = await api.running('infer', { ...least.infer, ...steps(`wait=${server.gate().path}`) });
    await api.kill(killed);
    await isExpired(failed.id);
    await isExpired(killed);
  });

  test('frees its Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': 'once' };
    const { id } = await api.run('infer', least.infer, { headers });
    await isExpired(id);
    expect((await api.run('infer', least.infer, { headers })).id).not.toBe(id);
  });

  test('is remembered as expired by the next server', async () => {
    const { id } = await api.run('infer', least.infer);
    await isExpired(id);
    await server.crash();
    await server.start();
    expect((await refusal(await api.fetch(`/jobs/${id}/result`)))[0]).toBe(410);
  });

  test('does not affect running jobs', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await isExpired((await api.run('infer', least.infer)).id);
    expect((await api.job(id)).status).toBe('running');
    gate.open();
    expect((await api.ended(id)).view.status).toBe('done');
  });
});

describe('a download that is slower than the grace period', () => {
  test('is never cut: the job is removed after the last download', async () => {
    const size = 60 * 2 ** 20;
    const { id, view } = await api.run('infer', { ...least.infer, ...steps(`fill=noise.bin:${size}`) });
    await using slow = await RawConnection.open(server.url);
    slow.write(`GET /jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    await slow.until(/\r\n\r\n/);
    slow.socket.pause();
    const expires = Date.parse(view.expires_at ?? '');
    await until('the grace is well over', () => Date.now() > expires + 300);
    await until('the job says that it is kept for longer', async () => {
      return Date.parse((await api.job(id)).expires_at ?? '') > expires;
    });
    // Another download can still begin.
    expect((await api.fetch(`/jobs/${id}/result`, { method: 'HEAD' })).status).toBe(200);
    slow.socket.resume();
    await until('the download is over', () => slow.isClosed);
    const body = Buffer.from(slow.received.slice(slow.received.indexOf('\r\n\r\n') + 4), 'latin1');
    expect((await unzip(body)).get('noise.bin')?.length).toBe(size);
    await isExpired(id);
    await until('its directory is removed', () => !existsSync(server.jobDirectory(id)));
  });

  test('and is cut after it can be resumed for another grace period', async () => {
    await using patient = await TestServer.start({ ownProcess: true, flags: ['--grace', '3'] });
    const { id, view } = await patient.api.run('infer', {
      ...least.infer,
      ...steps('fill=noise.bin:60000000'),
    });
    const slow = await RawConnection.open(patient.url);
    slow.write(`GET /jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await slow.until(/\r\n\r\n/);
    slow.socket.pause();
    const expires = Date.parse(view.expires_at ?? '');
    await until('the grace is well over', () => Date.now() > expires + 300);
    await slow.destroy();
    const rest = await patient.api.fetch(`/jobs/${id}/result`, {
      headers: { range: 'bytes=1000000-1000099' },
    });
    expect([rest.status, (await rest.arrayBuffer()).byteLength]).toEqual([206, 100]);
    expect(Date.parse((await patient.api.job(id)).expires_at ?? '')).toBeGreaterThan(expires);
    await until('it expires', async () => (await patient.api.fetch(`/jobs/${id}`)).status === 410);
  });

  test('that is broken off keeps the job for one grace period and no longer', async () => {
    const { id, view } = await api.run('infer', { ...least.infer, ...steps('fill=noise.bin:60000000') });
    const slow = await RawConnection.open(server.url);
    slow.write(`GET /jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await slow.until(/\r\n\r\n/);
    slow.socket.pause();
    await until('the grace is over', () => Date.now() > Date.parse(view.expires_at ?? '') + 100);
    await slow.destroy();
    await isExpired(id);
  });
});

describe('a server that was down', () => {
  test('starts the grace period of a job when it is back', async () => {
    await using second = await TestServer.start({ ownProcess: true, flags: ['--grace', '2'] });
    const { id, view } = await second.api.run('infer', least.infer);
    await second.crash();
    const expires = Date.parse(view.expires_at ?? '');
    await until('the grace would be over', () => Date.now() > expires + 100);
    await second.start();
    expect((await second.api.result(id)).has('probe.json')).toBe(true);
    await until('it expires', async () => (await second.api.fetch(`/jobs/${id}`)).status === 410);
  });
});
