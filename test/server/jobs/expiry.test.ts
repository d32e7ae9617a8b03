import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { until } from '../../support/until.mjs';
import { unzip } from '../../support/unzip.mjs';

/** Seconds. */
const grace = 60;
const clock = new TestClock();
const server = sharedServer({ clock, flags: ['--grace', String(grace)] });
const { api } = server;

const statusOf = async (id: string) => (await api.fetch(`/jobs/${id}`)).status;

/** A download of which only the beginning is read. */
async function slowDownload(id: string): Promise<RawConnection> {
  const slow = await RawConnection.open(server.url);
  slow.readOneChunk();
  slow.write(`GET /jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  await slow.until(/\r\n\r\n/);
  return slow;
}

/** Seconds from now until a job expires. */
const left = async (id: string) => (Date.parse((await api.job(id)).expires_at ?? '') - clock.now()) / 1000;

describe('a job whose grace period is over', () => {
  test('A job whose grace period is over is removed with all its files, and 410 on every route says when', async () => {
    const { id, view } = await api.run('infer', least.infer);
    expect(Date.parse(view.expires_at ?? '') - Date.parse(view.finished_at ?? '')).toBe(grace * 1000);
    clock.pass(grace);
    for (const [method, where] of [
      ['GET', ''],
      ['GET', '/logs'],
      ['GET', '/result'],
      ['POST', '/kill'],
    ] as const) {
      const [status, detail] = await refusal(await api.fetch(`/jobs/${id}${where}`, { method }));
      expect(status).toBe(410);
      expect(/\d{4}-\S+Z/.exec(detail)?.[0]).toBe(view.expires_at);
    }
    await until('its directory is removed', () => !existsSync(server.jobDirectory(id)));
    expect(await api.json('/jobs')).toEqual({ jobs: [] });
  });

  test('A job is not removed before its grace period is over', async () => {
    const { id } = await api.run('infer', least.infer);
    clock.pass(grace - 0.001);
    expect(await statusOf(id)).toBe(200);
    clock.pass(0.001);
    expect(await statusOf(id)).toBe(410);
  });

  test('A job whose grace period is over is removed whether it is done, failed or was killed', async () => {
    const failed = await api.run('infer', { ...least.infer, ...steps('exit=1') });
    const killed = await api.running('infer', { ...least.infer, ...steps(`wait=${server.gate().path}`) });
    await api.kill(killed);
    clock.pass(grace);
    expect([await statusOf(failed.id), await statusOf(killed)]).toEqual([410, 410]);
  });

  test('A job whose grace period is over frees its Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': 'once' };
    const { id } = await api.run('infer', least.infer, { headers });
    clock.pass(grace);
    expect((await api.run('infer', least.infer, { headers })).id).not.toBe(id);
  });

  test('A job whose grace period is over is remembered as expired by the next server', async () => {
    const { id } = await api.run('infer', least.infer);
    clock.pass(grace);
    await server.restart();
    expect((await refusal(await api.fetch(`/jobs/${id}/result`)))[0]).toBe(410);
  });

  test('A job whose grace period is over does not affect running jobs', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    clock.pass(10 * grace);
    expect((await api.job(id)).status).toBe('running');
    gate.open();
    expect((await api.ended(id)).view.status).toBe('done');
  });
});

describe('a download that is slower than the grace period', () => {
  /** More than the buffers of a connection take. */
  const size = 24 * 2 ** 20;

  test('A download that is slower than the grace period is never cut: the job is removed a grace period after the last download', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps(`fill=noise.bin:${size}`) });
    await using slow = await slowDownload(id);
    clock.pass(3 * grace);
    expect(await left(id)).toBe(grace);
    // Another download can still begin.
    expect((await api.fetch(`/jobs/${id}/result`, { method: 'HEAD' })).status).toBe(200);
    clock.pass(grace / 2);
    slow.socket.resume();
    await until('the download is over', () => slow.isClosed);
    const body = Buffer.from(slow.received.slice(slow.received.indexOf('\r\n\r\n') + 4), 'latin1');
    expect((await unzip(body)).get('noise.bin')?.length).toBe(size);
    await until('its time begins again', async () => (await left(id)) === grace);
    clock.pass(grace);
    expect(await statusOf(id)).toBe(410);
    await until('its directory is removed', () => !existsSync(server.jobDirectory(id)));
  });

  test('A slow download that breaks off can be resumed for one grace period, and no longer', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps(`fill=noise.bin:${size}`) });
    const slow = await slowDownload(id);
    clock.pass(grace * 1.5);
    await slow.destroy();
    await until('its time begins again', async () => (await left(id)) === grace);
    clock.pass(grace / 2);
    const rest = await api.fetch(`/jobs/${id}/result`, { headers: { range: 'bytes=1000000-1000099' } });
    expect([rest.status, (await rest.arrayBuffer()).byteLength]).toEqual([206, 100]);
    await until('its time begins again', async () => (await left(id)) === grace);
    clock.pass(grace);
    expect(await statusOf(id)).toBe(410);
  });
});

describe('a server that was down', () => {
  test('A server that was down starts the grace period of a job when it is back', async () => {
    const { id } = await api.run('infer', least.infer);
    await server.stop();
    clock.pass(2 * grace);
    await server.start();
    expect((await api.result(id)).has('probe.json')).toBe(true);
    clock.pass(grace);
    expect(await statusOf(id)).toBe(410);
  });
});
