import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

describe('active jobs', () => {
  const server = sharedServer({ flags: ['--max-jobs', '2', '--cpu-slots', '1'] });
  const { api } = server;

  test('Active jobs are limited: one more is answered 429 until one has ended', async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps(`wait=${gate.path}`) };
    const first = await api.accepted('infer', form);
    const second = await api.accepted('infer', form);
    const response = await api.submit('infer', least.infer);
    expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await refusal(response)).toEqual([429, expect.stringMatching(/^Server busy/)]);
    await api.kill(second.job_id);
    const third = await api.accepted('infer', least.infer);
    gate.open();
    for (const { job_id } of [first, third]) expect((await api.ended(job_id)).view.status).toBe('done');
    await api.run('infer', least.infer);
  });

  test('Active jobs count from the first byte of their upload', async () => {
    const body = multipart([filePart('inputs', 'a.nii')]);
    const head = submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`);
    const open = server.jobDirectories().length;
    await using first = await RawConnection.open(server.url);
    await using second = await RawConnection.open(server.url);
    for (const connection of [first, second]) connection.write(Buffer.concat([head, body.subarray(0, 20)]));
    await until('both uploads have begun', () => server.jobDirectories().length === open + 2);
    expect((await api.refused('infer', least.infer))[0]).toBe(429);
    // One becomes a job, the other breaks off and releases its place.
    first.write(body.subarray(20));
    expect((await first.answer()).status).toBe(200);
    await second.destroy();
    await until('there is room again', async () => (await api.submit('infer', least.infer)).status === 200);
  });
});

describe('simultaneous jobs', () => {
  const server = sharedServer({ flags: ['--max-jobs', '16', '--cpu-slots', '1'] });
  const { api } = server;

  test('No more simultaneous jobs are accepted than may be active', async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps(`wait=${gate.path}`) };
    const answers = await Promise.all(Array.from({ length: 20 }, () => api.submit('infer', form)));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([...Array(16).fill(200), ...Array(4).fill(429)]);
    const { jobs } = await api.json<{ jobs: { job_id: string }[] }>('/jobs');
    expect(jobs.length).toBe(16);
    expect(server.jobDirectories().length).toBe(16);
    await Promise.all(jobs.map(({ job_id }) => api.kill(job_id)));
  });
});
