import { rm } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Interrupted } from '../../../src/client/errors.js';
import type { Submission } from '../../../src/client/submission.js';
import { submit, unacknowledged } from '../../../src/client/submit/submit.js';
import { operationOf } from '../../../src/contract/operations.js';
import { jobEnvelope } from '../../../src/contract/routes.js';
import { formOf, type Handler, json, ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';
import { stage } from '../support/stage.js';

const operation = operationOf('infer');
const inputs = operation.fields.find((field) => field.name === 'inputs');
const envelope = jobEnvelope('0123456789ab', []);

function infer(...groups: string[][]): Submission {
  if (!inputs) throw new Error("the operations table has no field 'inputs'");
  return {
    operation,
    app: 'tissue',
    fields: { tta: '2' },
    options: {},
    files: [{ field: inputs, groups }],
    archive: null,
  };
}

/** Sends one file of that size to a server that behaves like this. */
async function send(
  handler: Handler,
  { size = 3, early = false, signal }: { size?: number; early?: boolean; signal?: AbortSignal } = {},
) {
  await using directory = await temporary();
  await plant(directory.path, { 'ct.nii': Buffer.alloc(size, 1) });
  await using server = await ScriptedServer.start(handler, early);
  await using connection = connectTo(server.url, signal ? { signal } : {});
  const submission = infer([path.join(directory.path, 'ct.nii')]);
  const waits: unknown[] = [];
  const reporter = { ...memoryReporter(), waiting: (what: string | null) => void waits.push(what) };
  const staged = await stage(submission, reporter, undefined);
  try {
    const result = await submit(connection, submission, staged, reporter).catch((error: unknown) => error);
    return { result, received: server.received, reporter, waits };
  } finally {
    await staged[Symbol.asyncDispose]();
  }
}

describe('a submission', () => {
  test('A submission has its fields, groups and files, and a known length', async () => {
    const { result, received, waits } = await send((_, response) => json(response, 200, envelope));
    expect(result).toEqual(envelope);
    expect(waits).toEqual(['Waiting for the server to accept the job', null]);
    const [request] = received;
    expect(request?.url).toBe('/apps/tissue/infer');
    expect(Number(request?.headers['content-length'])).toBe(request?.body.length);
    if (!request) throw new Error('nothing arrived');
    const form = await formOf(request);
    expect([form.get('tta'), form.get('inputs_groups'), (form.get('inputs') as File).name]).toEqual([
      '2',
      '1',
      'ct.nii',
    ]);
    expect(form.has('options')).toBe(false);
  });

  test('A submission is sent again with the same key if the connection broke before an answer', async () => {
    let cuts = 2;
    const { result, received, reporter } = await send((_, response, raw) => {
      if (cuts-- > 0) raw.socket.destroy();
      else json(response, 200, envelope);
    });
    expect(result).toEqual(envelope);
    const keys = received.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(received[2]?.body.length).toBe(received[0]?.body.length);
    expect(reporter.notes[0]).toMatch(/broke: .*; trying again for another 30 s$/);
  }, 120_000);

  test('A submission that a busy server has refused does not start over when there is a place', async () => {
    let asked = 0;
    const { result, received, reporter } = await send((_, response) =>
      asked++ === 0 ? json(response, 429, { detail: 'Busy' }) : json(response, 200, envelope),
    );
    expect([result, received.length]).toEqual([envelope, 2]);
    expect(reporter.notes.at(-1)).toMatch(/^http:\S+ takes the upload$/);
  });

  test('A submission reads a refusal that comes before the body is sent', async () => {
    const refuse: Handler = (_, response) =>
      json(response, 413, { detail: 'Upload too large' }, { connection: 'close' });
    const { result } = await send(refuse, { size: 64 * 1024 * 1024, early: true });
    expect(result).toMatchObject({ message: 'Upload too large', exitCode: 2 });
  });

  test('A submission that is interrupted while its body is sent ends at once', async () => {
    const controller = new AbortController();
    const handler: Handler = (_, __, raw) => {
      raw.once('readable', () => controller.abort(new Interrupted('SIGINT')));
    };
    const { result } = await send(handler, {
      size: 64 * 1024 * 1024,
      early: true,
      signal: controller.signal,
    });
    expect(result).toBeInstanceOf(Interrupted);
  });

  test('A submission that is interrupted after its body is sent still learns the id of its job', async () => {
    const controller = new AbortController();
    const handler: Handler = (_, response) => {
      controller.abort(new Interrupted('SIGINT'));
      setTimeout(() => json(response, 200, envelope), 50);
    };
    const { result } = await send(handler, { signal: controller.signal });
    expect(result).toEqual(envelope);
  });

  test('A submission that is interrupted and gets no answer says that there may be a job', async () => {
    const controller = new AbortController();
    const handler: Handler = (_, response) => {
      controller.abort(new Interrupted('SIGINT'));
      response.destroy();
    };
    const { result } = await send(handler, { signal: controller.signal });
    expect(result).toMatchObject({
      exitCode: 130,
      message: "Interrupted; the server may have accepted the job: 'remote-app jobs' lists it then",
    });
    // What a second Ctrl-C says.
    expect((controller.signal.reason as Interrupted).leaves).toBe(
      "the server may have accepted the job: 'remote-app jobs' lists it then",
    );
  });

  test('An answer to a submission without a job id is an error', async () => {
    const { result } = await send((_, response) => json(response, 200, { ok: true }));
    expect(result).toMatchObject({ exitCode: 5, message: expect.stringMatching(/job_id is missing/) });
  });

  test('Only options in a valid list count as acknowledged', async () => {
    const strange = { job_id: '0123456789ab', accepted_options: 'tta', result_url: 'http://elsewhere/' };
    const { result } = await send((_, response) => json(response, 200, strange));
    expect(result).toEqual(envelope);
  });

  test.each([[''], ['../../kill'], ['a b'], ['\u001b[2J'], ['a\nb'], [7], ['x'.repeat(65)]])(
    'A submission with the invalid job id %j is an error that shows it on one line',
    async (id) => {
      const { result } = await send((_, response) => json(response, 200, { job_id: id }));
      expect(result).toMatchObject({
        exitCode: 5,
        message: expect.stringMatching(/^[ -~]*job_id is [ -~]*$/),
      });
    },
  );

  test('The job ids of other servers are accepted', async () => {
    const id = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6';
    const { result } = await send((_, response) => json(response, 200, { job_id: id }));
    expect(result).toMatchObject({ job_id: id });
  });

  test('An unreadable file ends a submission, which is not sent again', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': 'abc' });
    await using server = await ScriptedServer.start((_, response) => json(response, 200, envelope));
    await using connection = connectTo(server.url);
    const reporter = memoryReporter();
    const file = path.join(directory.path, 'ct.nii');
    const staged = await stage(infer([file]), reporter, undefined);
    await rm(file);
    const result = await submit(connection, infer([file]), staged, reporter).catch((error: unknown) => error);
    await staged[Symbol.asyncDispose]();
    expect(result).toMatchObject({ exitCode: 1, message: expect.stringMatching(/ct\.nii' cannot be read/) });
    expect(reporter.notes).toEqual([]);
  });
});

test('Options that the server does not list count as not read', () => {
  const submission = { ...infer(), options: { batch_size: 2, patch_size: [96] } };
  expect(unacknowledged(submission, jobEnvelope('x', ['batch_size']))).toEqual(['patch_size']);
  expect(unacknowledged(submission, jobEnvelope('x', []))).toEqual(['batch_size', 'patch_size']);
  expect(unacknowledged({ ...submission, options: {} }, jobEnvelope('x', []))).toEqual([]);
});
