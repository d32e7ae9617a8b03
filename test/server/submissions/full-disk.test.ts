import { readFileSync, rmSync, statfsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { Usage } from '../../../src/contract/usage.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { TestServer } from '../../support/server.js';
import { smallDisk } from '../../support/small-disk.js';
import { until } from '../../support/until.mjs';
import { zip } from '../../support/zip.mjs';

const mebibyte = 2 ** 20;

const disk = smallDisk(24);

/** Sends these files without saying how much will come. */
async function upload(url: string, files: readonly Buffer[]): Promise<{ status: number; body: string }> {
  await using connection = await RawConnection.open(url);
  connection.write(submissionHead('/apps/probe/infer', 'Transfer-Encoding: chunked'));
  const body = multipart(files.map((content, index) => filePart('inputs', `${index}.nii`, content)));
  for (let start = 0; start < body.length; start += mebibyte) {
    const piece = body.subarray(start, start + mebibyte);
    connection.write(`${piece.length.toString(16)}\r\n`);
    connection.write(piece);
    connection.write('\r\n');
  }
  connection.write('0\r\n\r\n');
  return await connection.answer();
}

// Not every machine allows mounting.
describe.skipIf(disk === null)('a full disk', () => {
  const dataDirectory = path.join(disk ?? '', 'data');
  afterEach(() => rmSync(dataDirectory, { recursive: true }));

  test('A full disk refuses an upload of stated length before its body', async () => {
    await using server = await TestServer.start({ dataDirectory });
    await using connection = await RawConnection.open(server.url);
    const headers = ['Content-Length: 23000000', 'Expect: 100-continue'];
    connection.write(submissionHead('/apps/probe/infer', ...headers));
    const { status, head, body } = await connection.answer();
    expect(head).not.toContain('100 Continue');
    expect([status, JSON.parse(body)]).toEqual([507, { detail: expect.stringContaining('disk') }]);
  });

  test.for<[string, (free: number) => number[]]>([
    ['one large file', () => [40 * mebibyte]],
    ['many small files', () => Array(40).fill(900_000)],
    ['all but the last file', (free: number) => [free - 400_000, 900_000]],
    ['many tiny files', () => Array(9000).fill(10)],
  ])(
    'A full disk refuses an upload that does not fit, and keeps a reserve free for jobs: %s',
    async ([, sizes]) => {
      await using server = await TestServer.start({ dataDirectory });
      const { bavail, bsize } = statfsSync(dataDirectory);
      const files = sizes(bavail * bsize).map((size) => Buffer.alloc(size, 7));
      let lowest = Number.POSITIVE_INFINITY;
      let isOver = false;
      const watch = async () => {
        while (!isOver) {
          const { bavail, bsize } = await statfs(dataDirectory);
          lowest = Math.min(lowest, bavail * bsize);
          await new Promise((resolve) => setImmediate(resolve));
        }
      };
      const watching = watch();
      const { status, body } = await upload(server.url, files);
      isOver = true;
      await watching;
      // An eighth of 24 MiB is reserved, and up to 2 MiB are written between two checks.
      expect(lowest).toBeGreaterThan(mebibyte / 2);
      expect([status, JSON.parse(body)]).toEqual([507, { detail: expect.stringContaining('disk') }]);
      await until('nothing of it is left', () => server.jobDirectories().length === 0);
      // There is room again for a small upload.
      expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
    },
  );

  test('A full disk does not harm a job that was already running', async () => {
    await using server = await TestServer.start({
      dataDirectory,
      flags: ['--cpu-slots', '2', '--grace', '2'],
    });
    const { api } = server;
    const gate = server.gate();
    const taken = [
      'write=checkpoint.pt:weights',
      'print=begins',
      `wait=${gate.path}`,
      'print=while it was full',
    ];
    const id = await api.running('infer', { ...least.infer, ...steps(...taken) }, 'begins');
    const filling = { ...least.infer, ...steps(`fill=big:${40 * mebibyte}`) };
    const { job_id: other } = await api.accepted('infer', filling);
    await api.reaches(other, 'error');
    expect(statfsSync(dataDirectory).bavail).toBeLessThan(16);
    gate.open();
    const { view, log } = await api.ended(id);
    expect(view).toMatchObject({ status: 'done', error: null });
    expect(log).toMatch(/data: while it was full\n|lines? (could|of the log could) not be written/);
    expect(String((await api.result(id)).get('checkpoint.pt'))).toBe('weights');
  });

  test('A full disk refuses an archive whose files do not fit', async () => {
    await using server = await TestServer.start({ dataDirectory });
    const content = Buffer.alloc(22 * mebibyte, 7);
    const archive = zip([{ name: 'a.raw', content, deflated: true }]);
    const dataset = new File([archive], 'd.zip');
    const [status, detail] = await server.api.refused('fine_tune', { dataset });
    expect([status, detail]).toEqual([507, expect.stringContaining("'d.zip' extracts to")]);
    await until('nothing of it is left', () => server.jobDirectories().length === 0);
  });

  test('A full disk lets a result that does not fit be packed while it is downloaded', async () => {
    await using server = await TestServer.start({ dataDirectory });
    const { api } = server;
    const size = 14 * mebibyte;
    const { id, view } = await api.run('infer', { ...least.infer, ...steps(`fill=big:${size}`) });
    expect(view).toMatchObject({ status: 'done', error: null });
    const { usage } = await api.json<Usage>('/usage');
    expect(usage[0]?.bytes_out).toBeGreaterThan(size);
    expect(usage[0]?.bytes_out).toBeLessThan(size + mebibyte);
    const head = await api.fetch(`/jobs/${id}/result`, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, null]);
    for (const again of [await api.result(id), await api.result(id)]) {
      expect(again.get('big')?.length).toBe(size);
    }
    await server.restart();
    expect((await api.result(id)).get('big')?.length).toBe(size);
  });

  test('A full disk accepts an upload once results have been fetched, and only the oldest result is removed', async () => {
    await using server = await TestServer.start({ dataDirectory });
    const { api } = server;
    const filling = { ...least.infer, keep: '1h', ...steps(`fill=big:${3 * mebibyte}`) };
    const ids: string[] = [];
    for (let count = 0; count < 3; count += 1) ids.push((await api.run('infer', filling)).id);
    const [first = '', kept = '', last = ''] = ids;
    const state = async (id: string) => (await api.fetch(`/jobs/${id}`)).status;
    const size = statfsSync(dataDirectory).bavail * statfsSync(dataDirectory).bsize - 3 * mebibyte;
    const large = [Buffer.alloc(size + 2.5 * mebibyte, 7)];
    // No result was downloaded completely, so nothing is removed.
    expect((await api.fetch(`/jobs/${first}/result`, { method: 'HEAD' })).status).toBe(200);
    expect((await api.fetch(`/jobs/${first}/result`, { headers: { range: 'bytes=0-99' } })).status).toBe(206);
    expect((await upload(server.url, large)).status).toBe(507);
    expect(await Promise.all(ids.map(state))).toEqual([200, 200, 200]);
    for (const id of [last, first]) await api.result(id);
    // What was fetched is known to the next server as well.
    await until('it is noted', () => {
      const records = [last, first].map((id) => readFileSync(path.join(server.jobDirectory(id), 'job.json')));
      return records.every((record) => !String(record).includes('"fetchedAt": null'));
    });
    await server.restart();
    const { status, body } = await upload(server.url, large);
    expect([status, body]).toEqual([200, expect.stringContaining('job_id')]);
    expect(await Promise.all([first, kept, last].map(state))).toEqual([410, 200, 200]);
    expect((await api.json(`/jobs/${first}`)).detail).toMatch(
      /was removed at .*, since its result had been fetched and the disk was short/,
    );
    expect(server.stderr).toContain(`Job ${first}: removed before its time`);
    await api.ended((JSON.parse(body) as { job_id: string }).job_id);
  });

  test('A full disk never makes room by removing a job that is being downloaded', async () => {
    await using server = await TestServer.start({ dataDirectory });
    const { api } = server;
    const { id } = await api.run('infer', {
      ...least.infer,
      keep: '1h',
      ...steps(`fill=big:${9 * mebibyte}`),
    });
    expect((await api.result(id)).size).toBeGreaterThan(0);
    await using slow = await RawConnection.open(server.url);
    slow.socket.pause();
    slow.write(`GET /jobs/${id}/result HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    await until('it is being sent', () => server.openFiles().some((file) => file.endsWith('result.zip')));
    const large = { inputs: file('ct.nii', Buffer.alloc(14 * mebibyte)) };
    expect((await api.refused('infer', large))[0]).toBe(507);
    expect((await api.fetch(`/jobs/${id}`)).status).toBe(200);
  });

  test('A full disk accepts uploads again by removing what the failed job that filled it left, except its log', async () => {
    await using server = await TestServer.start({ ownProcess: true, dataDirectory });
    const { api } = server;
    const filling = { ...least.infer, ...steps('print=before', `fill=big:${40 * mebibyte}`) };
    const { job_id: id } = await api.accepted('infer', filling);
    const { left_files: left } = await api.reaches(id, 'error');
    expect(left).toBeGreaterThan(0);
    await until('no process of the job is left', () => server.processes().length === 0);
    expect(statSync(path.join(server.jobDirectory(id), 'Output', 'big')).size).toBeGreaterThan(mebibyte);
    const large = { inputs: file('ct.nii', 'x'.repeat(4 * mebibyte)) };
    expect((await api.run('infer', large)).view.error).toBeNull();
    expect(await api.job(id)).toMatchObject({ status: 'error', left_files: 0 });
    expect(await api.log(id)).toContain('before');
  });
});
