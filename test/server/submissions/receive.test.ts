import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import Koa from 'koa';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { operationOf } from '../../../src/contract/index.js';
import { httpServer } from '../../../src/server/http/http-server.js';
import { listen } from '../../../src/server/http/http-service.js';
import { wholeRequest } from '../../../src/server/http/request-body.js';
import { EarlyChecks, receiveForm, receiveJson } from '../../../src/server/submissions/index.js';
import { DiskSpace, type HeldUploads } from '../../../src/server/uploads/index.js';
import { fieldPart, filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { openBelow } from '../../support/open-files.js';
import { RawConnection } from '../../support/raw-http.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

const limits = { maxFileSize: 4 << 20, maxUploadSize: 5 << 20, maxExtractedSize: 1, advice: '' };
const operation = operationOf('infer');

let receive: (ctx: Koa.Context) => Promise<unknown> = async () => {};
/** What receiving a request gives, or why it fails. */
let outcome: Promise<unknown> | null = null;
const app = new Koa();
app.silent = true;
app.use(async (ctx) => {
  outcome = receive(ctx).catch((cause: Error) => cause.message);
  ctx.body = { outcome: await outcome };
});
const server = httpServer(app.callback());
let url = '';
beforeAll(async () => {
  url = await listen(server, '127.0.0.1', 0);
});
afterAll(() => void server.close());

let root: Awaited<ReturnType<typeof temporary>>;
beforeEach(async () => {
  root = await temporary();
  outcome = null;
});
afterEach(() => root[Symbol.asyncDispose]());

const never = new AbortController().signal;

const contextWith = (refused = never, checkValues = () => {}) => ({
  limits,
  checks: new EarlyChecks(operation, checkValues),
  space: new DiskSpace(root.path, async () => false).reservationFor('ana'),
  awaited: never,
  refused,
});

/** Receives the next request as a form. */
function expectForm(refused = never): void {
  receive = (ctx) => receiveForm(ctx, root.path, contextWith(refused));
}

/** A form of which half of a file has come and is written. */
async function halfSent(): Promise<RawConnection> {
  const connection = await RawConnection.open(url);
  const form = multipart([filePart('inputs', 'a.nii', Buffer.alloc(2 << 20, 7))]);
  connection.write(submissionHead('/', `Content-Length: ${form.length}`));
  connection.write(form.subarray(0, 1 << 20));
  await until('a part is written', () => openBelow(root.path).includes('0'));
  return connection;
}

test('a form is received with its texts, its files and its length', async () => {
  expectForm();
  const content = Buffer.alloc(3 << 20, 'voxels');
  const form = multipart([fieldPart('tag', 'x'), filePart('inputs', 'a.nii', content)]);
  await using connection = await RawConnection.open(url);
  connection.write(submissionHead('/', `Content-Length: ${form.length}`));
  connection.write(form);
  await connection.answer();
  const file = path.join(root.path, '0');
  expect(await outcome).toMatchObject({
    fields: [{ name: 'tag', text: 'x' }],
    files: [{ field: 'inputs', name: 'a.nii', path: file }],
    bytes: form.length,
  });
  expect(readFileSync(file).equals(content)).toBe(true);
  expect(openBelow(root.path)).toEqual([]);
});

test('a form that breaks off leaves no file open', async () => {
  expectForm();
  await (await halfSent()).destroy();
  expect(await outcome).toBe('The upload broke off');
  expect(openBelow(root.path)).toEqual([]);
});

test('a form ends with the refusal when its sender may send it no longer', async () => {
  const refused = new AbortController();
  expectForm(refused.signal);
  await using connection = await halfSent();
  refused.abort(new Error('Invalid token'));
  expect(JSON.parse((await connection.answer()).body)).toEqual({ outcome: 'Invalid token' });
  expect(openBelow(root.path)).toEqual([]);
});

test('a request that is over is waited for no longer, and one that is gone before it is waited for broke off', async () => {
  const [done, awaited] = [new AbortController(), new AbortController()];
  const timeouts: (number | undefined)[] = [];
  receive = async (ctx) => {
    const whole = wholeRequest(ctx, done.signal, awaited.signal);
    ctx.req.resume();
    await whole;
    timeouts.push(ctx.req.socket.timeout);
    done.abort();
    awaited.abort();
    timeouts.push(ctx.req.socket.timeout);
  };
  await (await fetch(url, { method: 'POST', body: 'x' })).text();
  expect(timeouts).toEqual([60_000, 0]);
  receive = async (ctx) => {
    ctx.req.destroy();
    await once(ctx.req, 'close');
    await wholeRequest(ctx, never, never);
  };
  await expect(fetch(url, { method: 'POST', body: 'x' })).rejects.toThrow();
  expect(await outcome).toBe('The upload broke off');
});

const [one, two] = ['a'.repeat(64), 'b'.repeat(64)] as [string, string];

/** Receives JSON, whose uploads have these lengths. */
async function json(body: object, lengths: Readonly<Record<string, number>>, checkValues = () => {}) {
  const taken: string[][] = [];
  const takeAll = async (names: readonly string[]) => {
    taken.push([...names]);
    return new Map(Object.entries(lengths).map(([name, length]) => [name, { file: `/${name}`, length }]));
  };
  const held = { takeAll } as unknown as HeldUploads;
  receive = (ctx) => receiveJson(ctx, operation, held, contextWith(never, checkValues));
  const text = JSON.stringify(body);
  const headers = { 'Content-Type': 'application/json' };
  await (await fetch(url, { method: 'POST', headers, body: text })).text();
  return { outcome: await outcome, taken, length: text.length };
}

const file = (upload: string, name: string) => ({ upload, name });

test('JSON is read as a form would be, whose files are uploads', async () => {
  const body = {
    inputs: [[file(one, 'a.nii')], [file(two, 'b.nii'), file(one, 'c.nii')]],
    tag: 'x',
    tta: 2,
    uncertainty: true,
    gpu: [0, 1],
    options: { batch_size: 4 },
    lr: null,
  };
  const received = await json(body, { [one]: 10, [two]: 20 });
  const placed = (field: string, name: string, upload: string) => ({
    field,
    name,
    path: `/${upload}`,
    isUpload: true,
  });
  expect(received).toEqual({
    outcome: {
      fields: [
        { name: 'inputs_groups', text: '1,2' },
        { name: 'tag', text: 'x' },
        { name: 'tta', text: '2' },
        { name: 'uncertainty', text: 'true' },
        { name: 'gpu', text: '0' },
        { name: 'gpu', text: '1' },
        { name: 'options', text: '{"batch_size":4}' },
      ],
      files: [placed('inputs', 'a.nii', one), placed('inputs', 'b.nii', two), placed('inputs', 'c.nii', one)],
      bytes: received.length + 40,
    },
    taken: [[one, two, one]],
    length: received.length,
  });
});

test('JSON may name as many files as a form may have', async () => {
  const named = (count: number) => json({ inputs: Array(count).fill(file(one, 'a')) }, { [one]: 1 });
  expect(((await named(20_000)).outcome as { files: unknown[] }).files).toHaveLength(20_000);
  expect((await named(20_001)).outcome).toBe(
    "The submission has more than 20000 files; send them as one archive named '<name>.konfaidir.zip'",
  );
});

test('JSON may have as many fields and texts as a form may have, and malformed JSON is refused', async () => {
  const fields = Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`f${at}`, 1]));
  const outcomeOf = async (body: object) => (await json(body, {})).outcome;
  expect(await outcomeOf(fields)).toBe('The submission has more than 1000 fields; send each once');
  expect(await outcomeOf({ gpu: Array(1001).fill('') })).toMatch('more than 1000 fields');
  expect(await outcomeOf({ tag: 'x'.repeat((1 << 20) + 1) })).toMatch(
    'The texts of the submission are longer',
  );
  const nested = `${'['.repeat(100_000)}1${']'.repeat(100_000)}`;
  const headers = { 'Content-Type': 'application/json' };
  for (const [text, refusal] of [
    [`{"options":${nested}}`, "Field 'options' is nested too deeply"],
    [`{"tag":${nested}}`, "Field 'tag' must be a text, a number, true or false, or a list of these"],
    ['{"tag":', 'The body is not a JSON object: '],
    ['[]', 'The body must be a JSON object'],
  ] as const) {
    await (await fetch(url, { method: 'POST', headers, body: text })).text();
    expect(await outcome).toMatch(refusal);
  }
});

test('JSON of more than four mebibytes is refused in words of its own', async () => {
  const sent = json({ tag: 'x'.repeat(4 << 20) }, {}).catch(() => {});
  await until('it is refused', () => outcome !== null);
  expect(await outcome).toBe('The submission is larger than 4194304 bytes of JSON');
  await sent;
});

test('JSON is checked before its uploads are taken, and bound as a form is', async () => {
  const inputs = [file(one, 'a.nii')];
  const refuses = () => {
    throw new Error('There is no such GPU');
  };
  expect(await json({ inputs, gpu: 7 }, { [one]: 1 }, refuses)).toMatchObject({
    outcome: 'There is no such GPU',
    taken: [],
  });
  expect(await json({ inputs, tta: 'x' }, { [one]: 1 })).toMatchObject({
    outcome: expect.stringContaining("'tta'"),
    taken: [],
  });
  const most = limits.maxFileSize;
  expect((await json({ inputs }, { [one]: most })).outcome).toMatchObject({ files: [{ name: 'a.nii' }] });
  expect((await json({ inputs }, { [one]: most + 1 })).outcome).toBe(
    "File 'a.nii' is larger than the limit of 4.0 MiB",
  );
  expect((await json({ inputs: [...inputs, ...inputs] }, { [one]: most })).outcome).toBe(
    'The upload is larger than the limit of 5.0 MiB',
  );
});
