import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JobEnvelope } from '../../../src/contract/job.js';
import { least, options, steps } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ flags: ['--max-jobs', '3', '--cpu-slots', '1'] });
const { api } = server;

const withKey = (key: string) => ({ headers: { 'Idempotency-Key': key } });
const jobCount = async () => (await api.json<{ jobs: unknown[] }>('/jobs')).jobs.length;

describe('a submission with an Idempotency-Key', () => {
  test('A submission with an Idempotency-Key that is repeated is answered with the envelope of the first, and runs once', async () => {
    const form = { ...least.infer, ...options({ batch_size: 2 }) };
    const first = await api.accepted('infer', form, withKey('a'));
    expect(await api.accepted('infer', form, withKey('a'))).toEqual(first);
    await api.ended(first.job_id);
    expect(await api.accepted('infer', form, withKey('a'))).toEqual(first);
    expect(await jobCount()).toBe(1);
  });

  test('Twenty simultaneous submissions with one Idempotency-Key make one job', async () => {
    const before = await jobCount();
    const envelopes: JobEnvelope[] = await Promise.all(
      Array.from({ length: 20 }, () => api.accepted('infer', least.infer, withKey('twenty'))),
    );
    expect(new Set(envelopes.map(({ job_id }) => job_id)).size).toBe(1);
    expect(await jobCount()).toBe(before + 1);
    await api.ended(envelopes[0]?.job_id ?? '');
  });

  test('A submission with an Idempotency-Key is answered even if the server is busy, because its job exists', async () => {
    const form = { ...least.infer, ...steps(`wait=${server.gate().path}`) };
    const first = await api.accepted('infer', form, withKey('busy'));
    const others = [await api.accepted('infer', form), await api.accepted('infer', form)];
    expect((await api.refused('infer', form))[0]).toBe(429);
    expect(await api.accepted('infer', form, withKey('busy'))).toEqual(first);
    for (const { job_id } of [first, ...others]) await api.kill(job_id);
    expect(await api.accepted('infer', form, withKey('busy'))).toEqual(first);
  });

  test('A submission with an Idempotency-Key is not held up by a first upload whose connection is lost', async () => {
    await using lost = await RawConnection.open(server.url);
    const head = [
      'POST /apps/probe/infer HTTP/1.1',
      'Host: 127.0.0.1',
      'Idempotency-Key: lost',
      'Content-Type: multipart/form-data; boundary=b',
      'Content-Length: 1000',
    ];
    lost.write(`${head.join('\r\n')}\r\n\r\n--b\r\n`);
    // Once the server has begun with it.
    await until('it has a directory', () => readdirSync(path.join(server.dataDirectory, 'incoming')).length);
    const { job_id } = await api.accepted('infer', least.infer, withKey('lost'));
    const { status, body } = await lost.answer();
    expect(status, body).toBe(408);
    expect(body).toContain('No byte of the upload arrived for 3 s');
    expect((await api.ended(job_id)).view.status).toBe('done');
  });

  test('A submission with an Idempotency-Key that was refused can be corrected and sent again', async () => {
    expect((await api.refused('infer', { ...least.infer, tta: 'x' }, withKey('fixed')))[0]).toBe(422);
    const { job_id } = await api.accepted('infer', least.infer, withKey('fixed'));
    expect((await api.ended(job_id)).view.status).toBe('done');
  });

  test('A submission with another key, or without a key, makes another job', async () => {
    const keys = [withKey('one'), withKey('two'), {}, withKey('')];
    const ids = [];
    for (const key of keys) ids.push((await api.run('infer', least.infer, key)).id);
    expect(new Set(ids).size).toBe(4);
  });

  test('A submission with an Idempotency-Key is also known after a restart of the server', async () => {
    const form = { ...least.infer, ...steps(`wait=${server.gate().path}`) };
    const active = await api.accepted('infer', form, withKey('active'));
    await server.restart();
    expect(await api.accepted('infer', form, withKey('active'))).toEqual(active);
    const { job_id: ended } = await api.accepted('infer', form, withKey('twenty'));
    expect((await api.job(ended)).status).toBe('done');
    await api.kill(active.job_id);
  });
});
