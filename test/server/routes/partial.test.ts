import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { sharedServer } from '../../support/server.js';
import { unzip } from '../../support/unzip.mjs';

const server = sharedServer();
const { api } = server;

const resultOf = (id: string, query = '?partial=1', method = 'GET') =>
  api.fetch(`/jobs/${id}/result${query}`, { method });
const filesOf = async (response: Response) => unzip(Buffer.from(await response.arrayBuffer()));

/** A job that takes these steps and fails. */
const failing = async (...taken: string[]) =>
  api.run('infer', { ...least.infer, ...steps(...taken, 'exit=3') });

describe('the output of a job without a result', () => {
  test('The output of a job without a result is sent as a zip for a failed job', async () => {
    const { id, view } = await failing('write=fold/half.txt:half', 'fill=noise.bin:3000000');
    expect(view).toMatchObject({ status: 'error', left_files: 3 });
    const response = await resultOf(id);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/zip']);
    const files = await filesOf(response);
    expect([...files.keys()].sort()).toEqual(['fold/half.txt', 'noise.bin', 'probe.json']);
    expect(String(files.get('fold/half.txt'))).toBe('half');
    expect(files.get('noise.bin')?.length).toBe(3_000_000);
  });

  test('The output of a job without a result is sent as a zip for a killed job, even after a restart', async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps('write=half.txt:half', 'print=ready', `wait=${gate.path}`) };
    const id = await api.running('infer', form, 'ready');
    await api.kill(id);
    await server.restart();
    expect(await api.job(id)).toMatchObject({ status: 'killed', left_files: 2 });
    expect(String((await filesOf(await resultOf(id))).get('half.txt'))).toBe('half');
  });

  test('The output of a job without a result answers HEAD, and has neither a length nor ranges', async () => {
    const { id } = await failing();
    const response = await resultOf(id, '?partial=true', 'HEAD');
    expect([response.status, await response.text()]).toEqual([200, '']);
    expect(response.headers.get('content-length')).toBeNull();
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="result.zip"');
    expect(response.headers.get('accept-ranges')).toBe('none');
  });

  test('The output of a job without a result contains no file reached through a link that leads outside', async () => {
    const { id, view } = await failing('link=passwd:/etc/passwd', 'link=up:../job.json', 'write=a.txt:a');
    expect(view.left_files).toBe(2);
    expect([...(await filesOf(await resultOf(id))).keys()].sort()).toEqual(['a.txt', 'probe.json']);
  });

  test('The output of a job without a result is not followed if it was replaced by a link', async () => {
    const { id } = await failing('shell=cd .. && rm -r Output && ln -s /etc Output');
    expect(await refusal(await resultOf(id))).toEqual([404, `Job ${id} left no file in its output`]);
  });

  test('The output of a job without a result is answered 404 if it is empty', async () => {
    const { id, view } = await failing('shell=rm probe.json && mkdir empty');
    expect(view.left_files).toBe(0);
    expect(await refusal(await resultOf(id))).toEqual([404, `Job ${id} left no file in its output`]);
    expect((await resultOf(id, '?partial=1', 'HEAD')).status).toBe(404);
    const gate = server.gate();
    await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    // It waits for all slots.
    const killed = (await api.accepted('infer', { ...least.infer, cpu: '100000' })).job_id;
    await api.reaches(killed, 'waiting');
    await api.kill(killed);
    expect((await resultOf(killed)).status).toBe(404);
    gate.open();
  });

  test('The output of a job without a result is counted up to a limit', async () => {
    const { view } = await failing('shell=i=0; while [ $i -lt 1010 ]; do i=$((i+1)); : > f$i; done');
    expect(view.left_files).toBe(1000);
  });
});

describe('?partial=1', () => {
  test('With ?partial=1, an active job is answered with 202, and a completed one with its result', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    expect([(await resultOf(id)).status, (await api.job(id)).left_files]).toEqual([202, null]);
    gate.open();
    expect((await api.ended(id)).view.left_files).toBeNull();
    const digest = async (query: string) => {
      const response = await resultOf(id, query);
      expect(response.headers.get('etag')).toMatch(/^"/);
      return createHash('sha256')
        .update(Buffer.from(await response.arrayBuffer()))
        .digest('hex');
    };
    expect(await digest('?partial=1')).toBe(await digest(''));
  });

  test('Without ?partial=1, a failed job is answered with its error', async () => {
    const { id } = await failing();
    const error = 'Subprocess failed (exit code 3)';
    for (const query of ['', '?partial=0', '?partial=']) {
      const response = await resultOf(id, query);
      expect([response.status, await response.json()]).toEqual([
        500,
        { job_id: id, status: 'error', error, kind: null },
      ]);
    }
    expect(await refusal(await resultOf(id, '?partial=half'))).toEqual([
      422,
      "Field 'partial' must be true or false, got 'half'",
    ]);
  });
});
