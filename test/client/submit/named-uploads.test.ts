import { createHash } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Submission } from '../../../src/client/submission.js';
import { submit } from '../../../src/client/submit/index.js';
import type { StagedFile } from '../../../src/client/submit/staging.js';
import { type OperationName, operationOf } from '../../../src/contract/operations.js';
import { json, type Received, ScriptedServer } from '../../support/scripted-server.js';
import { temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const mebibyte = 1 << 20;
const nameIn = ({ headers }: Received): string =>
  String(Buffer.from(String(headers['upload-metadata']).split(' ')[1] ?? '', 'base64'));

/** A server with uploads, which has so many bytes of each, and answers so to submissions, one after the other. */
async function uploadServer(
  there: Map<string, number>,
  answers: readonly (readonly [status: number, body: object])[] = [[200, { job_id: 'ab' }]],
  { cuts = 0, length }: { cuts?: number; length?: number } = {},
) {
  let cut = 0;
  const lengths = new Map<string, number>();
  const left = [...answers];
  const server = await ScriptedServer.start((request, response, raw) => {
    const { method, url, headers, body } = request;
    if (url.startsWith('/apps')) {
      const [status, answer] = left.shift() ?? [500, {}];
      for (const name of 'uploads' in answer ? (answer.uploads as string[]) : []) there.delete(name);
      return json(response, status, answer);
    }
    if (method === 'HEAD' && cut++ < cuts) return void raw.socket.destroy();
    const name = method === 'POST' ? nameIn(request) : (url.split('/').at(-1) ?? '');
    if (method === 'POST') lengths.set(name, Number(headers['upload-length']));
    const known = there.get(name);
    if (method === 'DELETE') there.delete(name);
    else if (method === 'HEAD' && known === undefined)
      return void response.writeHead(404, { 'content-type': 'application/json' }).end();
    else if (method === 'POST') there.set(name, known ?? body.length);
    else if (method === 'PATCH') there.set(name, (known ?? 0) + body.length);
    const whole = String(length ?? lengths.get(name) ?? 2 * mebibyte);
    response.writeHead(200, { 'Upload-Offset': String(there.get(name) ?? 0), 'Upload-Length': whole }).end();
  });
  const asked = () =>
    server.received.map(({ method, url }) => `${method} ${url.replace(/[0-9a-f]{60}/, '')}`);
  return Object.assign(server, { asked });
}

/** Files that leave as they are: field, group, name and content of each. */
const stagedFiles = (
  root: string,
  files: readonly (readonly [field: string, group: number, filename: string, content: Buffer])[],
) =>
  files.map(([field, group, filename, content], at): StagedFile => {
    const file = path.join(root, String(at));
    writeFileSync(file, content);
    const { length: size } = content;
    return {
      ...{ field, group, filename, path: file, size },
      make: async () => ({ field, filename, path: file, size }),
      discard: async () => {},
    };
  });

const submission = (name: OperationName, more: Partial<Submission> = {}): Submission => ({
  ...{ operation: operationOf(name), app: 'lab/x', fields: {}, options: {}, files: [], archive: null },
  ...more,
});

/** Submits files; tells what came of it, and what was told. */
async function send(
  server: ScriptedServer,
  given: Submission,
  uploads: readonly StagedFile[],
  { fields = {}, signal }: { fields?: Record<string, string>; signal?: AbortSignal } = {},
) {
  await using connection = connectTo(server.url, { signal });
  const reporter = memoryReporter();
  const staged = { fields, parts: [], uploads, [Symbol.asyncDispose]: async () => {} };
  const end = await submit(connection, given, staged, reporter).catch((error: Error) => error);
  return { end, ...reporter };
}

describe('a submission that names uploads', () => {
  const [a, b, c] = [Buffer.from('aa'), Buffer.from('bbb'), Buffer.from('c')];

  test('A submission that names uploads has its fields, its options, and each group with the names of its files', async () => {
    await using root = await temporary();
    await using server = await uploadServer(new Map());
    const files = stagedFiles(root.path, [
      ['inputs', 0, 'a.nii', a],
      ['inputs', 0, 'b.nii', b],
      ['inputs', 1, 'c.nii', c],
      ['gt', 0, 'a.nii', b],
    ]);
    const given = submission('evaluate', { options: { batch_size: 2 } });
    const { end } = await send(server, given, files, { fields: { keep: '60' } });
    expect(end).toMatchObject({ job_id: 'ab' });
    const request = server.received.at(-1);
    expect([request?.url, request?.headers['content-type']]).toEqual([
      '/apps/lab/x/evaluate',
      'application/json',
    ]);
    const reference = (content: Buffer, name: string) => ({ upload: sha256(content), name });
    expect(JSON.parse(String(request?.body))).toEqual({
      keep: '60',
      options: { batch_size: 2 },
      inputs: [[reference(a, 'a.nii'), reference(b, 'b.nii')], [reference(c, 'c.nii')]],
      gt: [[reference(b, 'a.nii')]],
    });
    // What is there twice is sent once.
    expect(
      server
        .to('/uploads')
        .map(({ body }) => String(body))
        .sort(),
    ).toEqual(['aa', 'bbb', 'c']);
  });

  test('A submission that names uploads has the data set of a fine-tuning separately, and no options if none are given', async () => {
    await using root = await temporary();
    await using server = await uploadServer(new Map());
    await send(server, submission('fine_tune'), stagedFiles(root.path, [['dataset', 0, 'set.zip', a]]));
    expect(JSON.parse(String(server.received.at(-1)?.body))).toEqual({
      dataset: { upload: sha256(a), name: 'set.zip' },
    });
  });

  test('Only uploads that the server lacks are sent again, and three times at most', async () => {
    const lacks = [409, { detail: 'Send these', uploads: [sha256(a)] }] as const;
    const sends = async (...answers: (readonly [number, object])[]) => {
      await using root = await temporary();
      await using server = await uploadServer(new Map(), answers);
      const files = stagedFiles(root.path, [
        ['inputs', 0, 'a.nii', a],
        ['inputs', 0, 'b.nii', b],
      ]);
      const { end } = await send(server, submission('infer'), files);
      return [end, server.to('/uploads').map(({ body }) => String(body))];
    };
    expect(await sends(lacks, lacks, [200, { job_id: 'ab' }])).toMatchObject([
      { job_id: 'ab' },
      ['aa', 'bbb', 'aa', 'aa'],
    ]);
    expect(await sends(lacks, lacks, lacks, [200, { job_id: 'ab' }])).toMatchObject([
      { message: 'Send these', status: 409 },
      ['aa', 'bbb', 'aa', 'aa'],
    ]);
    expect(await sends([409, { detail: 'No' }])).toMatchObject([{ message: 'No' }, ['aa', 'bbb']]);
  });
});

describe('an upload', () => {
  const [large, other] = [Buffer.alloc(2 * mebibyte, 1), Buffer.alloc(2 * mebibyte, 2)];
  const short = (content: Buffer) => sha256(content).slice(60);

  test('The progress of an upload includes what exists already and need not be sent', async () => {
    await using root = await temporary();
    const there = new Map([
      [sha256(large), 2 * mebibyte],
      [sha256(other), mebibyte],
    ]);
    await using server = await uploadServer(there);
    const files = stagedFiles(root.path, [
      ['inputs', 0, 'a.nii', large],
      ['inputs', 0, 'b.nii', other],
    ]);
    const { notes, moves } = await send(server, submission('infer'), files);
    expect(notes).toEqual([
      `'${path.join(root.path, '1')}' continues after 1.0 MiB of 2.0 MiB`,
      '1 of 2 files is already on the server (3.0 MiB not sent)',
    ]);
    expect(server.asked()).toEqual([
      `HEAD /uploads/${short(large)}`,
      `HEAD /uploads/${short(other)}`,
      `PATCH /uploads/${short(other)}`,
      'POST /apps/lab/x/infer',
    ]);
    const patch = server.received[2];
    expect([patch?.headers['upload-offset'], patch?.body.length]).toEqual([String(mebibyte), mebibyte]);
    expect(moves.filter(([what]) => what === 'Uploading').at(-1)).toEqual([
      'Uploading',
      4 * mebibyte,
      4 * mebibyte,
    ]);
    expect(moves.find(([what]) => what === 'Hashing')).toEqual(['Hashing', mebibyte, 4 * mebibyte]);
  });

  test('An upload that exists already is noted for each file with its content', async () => {
    await using root = await temporary();
    await using server = await uploadServer(new Map([[sha256(large), 2 * mebibyte]]));
    const files = stagedFiles(root.path, [
      ['inputs', 0, 'a.nii', large],
      ['inputs', 0, 'b.nii', large],
    ]);
    const { signal } = new AbortController();
    const { notes } = await send(server, submission('infer'), files, { signal });
    expect(notes).toEqual(['2 of 2 files are already on the server (4.0 MiB not sent)']);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    // It has grown since it was found.
    const [found] = files;
    if (!found) throw new Error('there is no file');
    const grown = [{ ...found, make: async () => ({ ...(await found.make()), size: mebibyte }) }];
    const { end } = await send(server, submission('infer'), grown);
    expect(end).toMatchObject({ message: `'${found.path}' changed while it was sent; send it again` });
  });

  test('A staged file is discarded before the submission is sent, and nothing is submitted after an interruption', async () => {
    await using root = await temporary();
    await using server = await uploadServer(new Map());
    const discarded: number[] = [];
    const made = stagedFiles(root.path, [['inputs', 0, 'a.nii', Buffer.from('a')]]).map((file) => ({
      ...file,
      discard: async () => void discarded.push(server.received.length),
    }));
    await send(server, submission('infer'), made);
    expect([discarded, server.received.length]).toEqual([[1], 2]);
    const reason = new Error('Interrupted');
    const { end } = await send(server, submission('infer'), made, { signal: AbortSignal.abort(reason) });
    expect([end, server.received.length]).toEqual([reason, 2]);
  });

  test.each([1, 3])('An upload with the name of other content is not submitted: %i MiB', async (length) => {
    await using root = await temporary();
    const there = new Map([[sha256(large), mebibyte]]);
    await using server = await uploadServer(there, undefined, { length: length * mebibyte });
    const files = stagedFiles(root.path, [['inputs', 0, 'a.nii', large]]);
    const { end } = await send(server, submission('infer'), files);
    expect(end).toMatchObject({
      message: `'${path.join(root.path, '0')}' changed while it was sent; send it again`,
    });
    expect(server.asked()).toEqual([`HEAD /uploads/${short(large)}`]);
  });

  test('An upload that a server accepts and forgets is abandoned after four times its bytes', async () => {
    await using root = await temporary();
    let bytes = 0;
    await using server = await ScriptedServer.start(({ method, body }, response) => {
      bytes += body.length;
      if (method === 'POST') response.writeHead(201, { 'Upload-Offset': '0' }).end();
      else json(response, 404, { detail: 'You have no upload with this name; begin it' });
    });
    const files = stagedFiles(root.path, [['inputs', 0, 'a.nii', large]]);
    const { end } = await send(server, submission('infer'), files);
    expect(end).toMatchObject({ status: 404, message: expect.stringContaining('no upload with this name') });
    expect(bytes).toBe(4 * large.length);
  });

  test('An upload that identifies a person is refused with the path of the file', async () => {
    await using root = await temporary();
    const detail = 'The upload identifies a person, in PatientName (0010,0010)';
    await using server = await ScriptedServer.start((_, response) => json(response, 422, { detail }));
    const files = stagedFiles(root.path, [['inputs', 0, 'a.nii', Buffer.from('a')]]);
    const { end } = await send(server, submission('infer'), files);
    expect(end).toMatchObject({
      message: `'${path.join(root.path, '0')}' is not taken: ${detail}`,
      exitCode: 2,
    });
    expect(server.received).toHaveLength(1);
  });
});
