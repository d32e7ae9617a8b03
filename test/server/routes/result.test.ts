import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JobRecord } from '../../../src/server/jobs/job-record.js';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { unzip } from '../../support/unzip.mjs';

const server = sharedServer();
const { api } = server;

const resultOf = (id: string, headers: Record<string, string> = {}, method = 'GET') =>
  api.fetch(`/jobs/${id}/result`, { headers, method });
const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer());

describe('the result of a job', () => {
  test('The result of a job is answered with 202 while it is not ready', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const response = await resultOf(id);
    expect([response.status, await response.json()]).toEqual([202, { job_id: id, status: 'running' }]);
    expect((await resultOf(id, {}, 'HEAD')).status).toBe(202);
    gate.open();
  });

  test('The result of a job is a zip of the files under the output directory', async () => {
    const { id } = await api.run('infer', {
      ...least.infer,
      ...steps('write=Predictions/ct/é.nii:voxels', 'write=Evaluations/m.json:{}', 'fill=noise.bin:200000'),
    });
    const response = await resultOf(id);
    expect(response.headers.get('content-type')).toBe('application/zip');
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="result.zip"');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const body = await bytesOf(response);
    expect(response.headers.get('content-length')).toBe(String(body.length));
    const files = await unzip(body);
    expect([...files.keys()].sort()).toEqual([
      'Evaluations/m.json',
      'Predictions/ct/é.nii',
      'noise.bin',
      'probe.json',
    ]);
    expect(String(files.get('Predictions/ct/é.nii'))).toBe('voxels');
    expect(files.get('noise.bin')?.length).toBe(200_000);
  });

  test('The result of a job contains no file reached through a link that leads outside', async () => {
    const { id } = await api.run('infer', {
      ...least.infer,
      ...steps(
        'link=passwd:/etc/passwd',
        'link=up:../job.json',
        'link=dangling:nowhere',
        'write=a.txt:a',
        'link=b.txt:a.txt',
      ),
    });
    const files = await api.result(id);
    expect([...files.keys()].sort()).toEqual(['a.txt', 'b.txt', 'probe.json']);
    expect(String(files.get('b.txt'))).toBe('a');
  });

  test('The result of a job that failed is answered with 500 and the error', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps('exit=4') });
    const response = await resultOf(id);
    const error = 'Subprocess failed (exit code 4)';
    expect([response.status, await response.json()]).toEqual([
      500,
      { job_id: id, status: 'error', error, kind: null },
    ]);
  });

  test("The result of a job whose app refused its input is answered with 422 and the app's message", async () => {
    const said = String.raw`Case 3 has 2 channels,\n  the app wants 1\n`;
    for (const name of ['REMOTE_APP_REFUSAL_FILE', 'KONFAI_APPS_REFUSAL_FILE']) {
      const refuse = `shell=printf '${said}' > "$${name}"`;
      const { id, log, view } = await api.run('infer', { ...least.infer, ...steps(refuse, 'exit=1') });
      const error = 'Case 3 has 2 channels, the app wants 1';
      const response = await resultOf(id);
      expect([response.status, await response.json()]).toEqual([
        422,
        { job_id: id, status: 'error', error, kind: null },
      ]);
      expect([view.status, view.error]).toEqual(['error', error]);
      expect(log).toContain(`__ERROR__ ${error}`);
    }
  });

  test.for([
    ['that did not fail', 'shell=echo no > "$REMOTE_APP_REFUSAL_FILE"', 200],
    ['that wrote nothing', 'shell=: > "$REMOTE_APP_REFUSAL_FILE"; exit 3', 500],
    ['that planted a link', 'shell=ln -s /etc/hostname "$REMOTE_APP_REFUSAL_FILE"; exit 3', 500],
    ['that planted another name of a file', 'shell=ln ../log "$REMOTE_APP_REFUSAL_FILE"; exit 3', 500],
    ['that wrote without end', 'shell=seq 99999 > "$REMOTE_APP_REFUSAL_FILE"; exit 3', 500],
  ] as const)('A job %s does not count as refused', async ([, step, status]) => {
    const { id } = await api.run('infer', { ...least.infer, ...steps(step) });
    expect((await resultOf(id)).status).toBe(status);
  });

  test('The result of a job is answered with 410 if its archive and its files have been removed', async () => {
    const { id } = await api.run('infer', least.infer);
    for (const name of ['result.zip', 'Output'])
      rmSync(path.join(server.jobDirectory(id), name), { recursive: true });
    expect(await refusal(await resultOf(id))).toEqual([
      410,
      `The result of job ${id} is removed; submit it again`,
    ]);
  });

  test('The result of a job that was killed is answered with 409', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await api.kill(id);
    const response = await resultOf(id);
    expect([response.status, await response.json()]).toEqual([
      409,
      { job_id: id, status: 'killed', error: 'Killed by user', kind: null },
    ]);
  });
});

describe('a download', () => {
  let id = '';
  let etag = '';
  let body = Buffer.alloc(0);
  beforeAll(async () => {
    id = (await api.run('infer', { ...least.infer, ...steps('fill=a.bin:100000') })).id;
    const response = await resultOf(id);
    etag = response.headers.get('etag') ?? '';
    body = await bytesOf(response);
  });

  test('A download answers HEAD', async () => {
    const response = await resultOf(id, {}, 'HEAD');
    expect([response.status, await response.text()]).toEqual([200, '']);
    expect(response.headers.get('content-length')).toBe(String(body.length));
    expect(response.headers.get('accept-ranges')).toBe('bytes');
    const tag = `"${id}-${body.length}"`;
    expect([etag, response.headers.get('etag')]).toEqual([tag, tag]);
  });

  test.for([
    ['bytes=1000-', 1000, undefined],
    ['bytes=10-19', 10, 20],
    ['bytes=-500', -500, undefined],
    ['bytes=0-0', 0, 1],
  ] as const)('A download resumes anywhere: %s', async ([range, from, to]) => {
    const response = await resultOf(id, { Range: range });
    const part = body.subarray(from, to);
    expect(response.status).toBe(206);
    const start = from < 0 ? body.length + from : from;
    expect(response.headers.get('content-range')).toBe(
      `bytes ${start}-${start + part.length - 1}/${body.length}`,
    );
    expect((await bytesOf(response)).equals(part)).toBe(true);
  });

  test('A download that broke off continues if the archive is the same, and starts over otherwise', async () => {
    const same = await resultOf(id, { Range: 'bytes=5000-', 'If-Range': etag });
    expect(same.status).toBe(206);
    expect((await bytesOf(same)).equals(body.subarray(5000))).toBe(true);
    for (const different of ['"another"', `W/${etag}`]) {
      const other = await resultOf(id, { Range: 'bytes=5000-', 'If-Range': different });
      expect(other.status).toBe(200);
      expect((await bytesOf(other)).equals(body)).toBe(true);
    }
  });

  test('A download with If-Match is sent only if its own tag matches', async () => {
    const statusFor = async (tag: string) => (await resultOf(id, { 'If-Match': tag })).status;
    expect(await statusFor(etag)).toBe(200);
    expect(await statusFor(`"other", ${etag}`)).toBe(200);
    expect(await statusFor('*')).toBe(200);
    expect(await statusFor('"other"')).toBe(412);
    expect(await statusFor(`W/${etag}`)).toBe(412);
  });

  test.for([
    ['as long as it is', (size: number) => `bytes=-${size}`],
    ['one byte longer', (size: number) => `bytes=-${size + 1}`],
    ['much longer', () => `bytes=-${'9'.repeat(400)}`],
    ['longer, beside another range', (size: number) => `bytes=0-9, -${size + 1}`],
  ] as const)('A download of its last bytes is complete if the range is %s', async ([, rangeOf]) => {
    const response = await resultOf(id, { Range: rangeOf(body.length) });
    const range = response.headers.get('content-range');
    expect([response.status, range]).toEqual([206, `bytes 0-${body.length - 1}/${body.length}`]);
    expect((await bytesOf(response)).equals(body)).toBe(true);
  });

  test('A download of its last 0 bytes is answered with 416', async () => {
    expect((await resultOf(id, { Range: 'bytes=-0' })).status).toBe(416);
  });

  test('A download with a range beyond its end is answered with 416 and the size', async () => {
    const response = await resultOf(id, { Range: `bytes=${body.length}-` });
    expect(response.status).toBe(416);
    expect(response.headers.get('content-range')).toBe(`bytes */${body.length}`);
    const { headers } = response;
    expect([headers.get('content-disposition'), headers.get('etag')]).toEqual([null, null]);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await refusal(response)).toEqual([416, 'The result has no such range; ask for it whole']);
    // It is no fault of the server.
    expect(server.stderr).not.toContain('A result could not be sent');
  });

  test('A download is answered with 412 if another archive is requested', async () => {
    const response = await resultOf(id, { 'If-Match': '"another"' });
    expect(await refusal(response)).toEqual([412, 'The result is not the one you asked for']);
  });

  test.for([3, 60])('A download that is requested %d times at once keeps no file open', async (count) => {
    const large = (await api.run('infer', { ...least.infer, ...steps('fill=a.bin:20000000') })).id;
    expect((await resultOf(large, {}, 'HEAD')).status).toBe(200);
    const held = () => server.openFiles().filter((file) => file.endsWith('result.zip')).length;
    for (let round = 0; round < 3; round += 1) {
      await using connection = await RawConnection.open(server.url);
      if (count === 3) connection.socket.pause();
      connection.write(`GET /jobs/${large}/result HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(count));
      if (count === 3) await until('the files are open', () => held() >= count);
      else await until('the server cuts the connection', () => connection.isClosed);
    }
    await until('the files are closed', () => held() === 0);
    expect(server.stderr).not.toMatch(/\/result failed|An answer failed/);
  });

  test('A download counts as fetched when it was sent completely, whether at once, in pieces or packed on the fly', async () => {
    const fetched = async (job: string) => {
      // Each answer is noted after its last byte.
      await api.job(job);
      return (JSON.parse(readFileSync(recordOf(job), 'utf8')) as JobRecord).fetchedAt !== null;
    };
    const recordOf = (job: string) => path.join(server.jobDirectory(job), 'job.json');
    const ends = await Promise.all(
      [1, 2].map(() => api.run('infer', { ...least.infer, ...steps('fill=a.bin:1000') })),
    );
    const [pieces = '', packed = ''] = ends.map((end) => end.id);
    for (const range of ['bytes=600-', 'bytes=0-99', 'bytes=50-499'])
      await bytesOf(await resultOf(pieces, { Range: range }));
    await resultOf(pieces, {}, 'HEAD');
    await resultOf(packed, {}, 'HEAD');
    rmSync(path.join(server.jobDirectory(packed), 'result.zip'));
    await resultOf(packed, {}, 'HEAD');
    expect([await fetched(pieces), await fetched(packed)]).toEqual([false, false]);
    await bytesOf(await resultOf(pieces, { Range: 'bytes=500-' }));
    await bytesOf(await resultOf(packed));
    await until('both are noted', async () => (await fetched(pieces)) && (await fetched(packed)));
  });

  test('A download works for many at once', async () => {
    const copies = await Promise.all(Array.from({ length: 10 }, async () => bytesOf(await resultOf(id))));
    expect(copies.every((copy) => copy.equals(body))).toBe(true);
  });
});

describe('a data directory', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
  afterAll(() => rmSync(root, { recursive: true }));

  test('A data directory may have a name with characters that have a meaning in a URL', async () => {
    const dataDirectory = path.join(root, '50% of ..data #1?', '%41');
    await using odd = await TestServer.start({ dataDirectory });
    const { id } = await odd.api.run('infer', { ...least.infer, ...steps('write=a.txt:here') });
    expect(String((await odd.api.result(id)).get('a.txt'))).toBe('here');
  });
});
