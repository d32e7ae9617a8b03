import { writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Interrupted } from '../../../src/client/errors.js';
import { submit } from '../../../src/client/submit/submit.js';
import { errorKinds, shuttingDownDetail } from '../../../src/contract/errors.js';
import { operationOf } from '../../../src/contract/operations.js';
import { jobEnvelope } from '../../../src/contract/routes.js';
import { type Handler, json, ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';
import { stage } from '../support/stage.js';

const operation = operationOf('infer');
const envelope = jobEnvelope('0123456789ab', []);
const accept: Handler = (_, response) => json(response, 200, envelope);

/** An upload of one file, and the server that it goes to, which may stop and start again at its address. */
class Upload implements AsyncDisposable {
  readonly reporter = memoryReporter();
  readonly controller = new AbortController();
  readonly keys: unknown[] = [];
  readonly waits: string[] = [];
  onWait: (wait: number) => void = () => {};
  onMet: () => void = () => {};
  #port: number | undefined;

  private constructor(
    readonly directory: Awaited<ReturnType<typeof temporary>>,
    readonly server: ScriptedServer,
    private readonly handlers: Handler[],
  ) {}

  /** @param handlers for one submission after the other; the last one is used for all others */
  static async start(...handlers: Handler[]): Promise<Upload> {
    const directory = await temporary();
    await plant(directory.path, { 'ct.nii': 'volume' });
    const server = await ScriptedServer.start(async (request, response, raw) => {
      if (request.method === 'GET') return json(response, 200, { status: 'ok' });
      upload.keys.push(request.headers['idempotency-key']);
      const handler = upload.handlers.length > 1 ? upload.handlers.shift() : upload.handlers[0];
      await handler?.(request, response, raw);
    });
    const upload: Upload = new Upload(directory, server, handlers);
    return upload;
  }

  get file(): string {
    return path.join(this.directory.path, 'ct.nii');
  }

  /** Closes the port; connections are cut. */
  stop(): void {
    const { server } = this.server;
    this.#port ??= (server.address() as AddressInfo).port;
    server.close();
    server.closeAllConnections();
  }

  restart(): void {
    this.server.server.listen(this.#port, '127.0.0.1');
  }

  /** Sends it; resolves with the envelope or the error. `isMet`: the server answers another request first. */
  async send({ isMet = true, patience = 60 } = {}): Promise<unknown> {
    const { reporter, controller } = this;
    const inputs = operation.fields.find((field) => field.name === 'inputs');
    if (!inputs) throw new Error("the operations table has no field 'inputs'");
    const files = [{ field: inputs, groups: [[this.file]] }];
    const submission = { operation, app: 'tissue', fields: {}, options: {}, files, archive: null };
    await using connection = connectTo(this.server.url, { patience, signal: controller.signal });
    if (isMet) {
      await (await connection.send('/health')).body.dump();
      this.onMet();
    }
    const staged = await stage(submission, reporter, undefined);
    const waiting = (what: string | null) => {
      if (what?.startsWith('Trying again')) this.onWait(this.waits.push(what));
    };
    try {
      return await submit(connection, submission, staged, { ...reporter, waiting }).catch(
        (error: unknown) => error,
      );
    } finally {
      await staged[Symbol.asyncDispose]();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await this.directory[Symbol.asyncDispose]();
  }
}

describe('an upload whose server goes away', () => {
  test('An upload waits for the next server if its server goes away, says so once, and sends the same submission', async () => {
    await using upload = await Upload.start(() => upload.stop(), accept);
    upload.onWait = (wait) => {
      if (wait === 5) upload.restart();
    };
    expect(await upload.send()).toEqual(envelope);
    expect(upload.keys).toHaveLength(2);
    expect(new Set(upload.keys).size).toBe(1);
    expect(upload.waits.at(-1)).toMatch(
      /^Trying again for another \d+ s: .* cannot be reached: nothing listens there$/,
    );
    expect(upload.reporter.notes).toEqual([
      expect.stringMatching(/^The connection to http:\S+ broke: .*; trying again for another 60 s$/),
      expect.stringMatching(/^http:\S+ takes the upload, which starts over$/),
    ]);
  }, 120_000);

  test('An upload whose server goes away before it has begun also waits, if the server had answered a request', async () => {
    await using upload = await Upload.start(accept);
    upload.onMet = () => upload.stop();
    upload.onWait = (wait) => {
      if (wait === 1) upload.restart();
    };
    expect(await upload.send()).toEqual(envelope);
    expect(upload.keys).toHaveLength(1);
  });

  test('An upload whose server goes away waits no longer than --patience', async () => {
    await using upload = await Upload.start(() => upload.stop());
    const begin = performance.now();
    expect(await upload.send({ patience: 0.6 })).toMatchObject({
      exitCode: 5,
      message: expect.stringMatching(
        /nothing listens there; gave up on the upload after 1 s; the server may have accepted .*'remote-app jobs'/,
      ),
    });
    expect(performance.now() - begin).toBeLessThan(10_000);
  });

  test('If the server goes away in the middle of an upload and stays away, the error says what to do, and there is no job', async () => {
    await using upload = await Upload.start(accept);
    upload.onMet = () => upload.stop();
    expect(await upload.send({ patience: 0.6 })).toMatchObject({
      exitCode: 5,
      details: { fault: 'unreached' },
      message: expect.stringMatching(
        /; gave up on the upload after 1 s; no job was created: run the command again .* --patience$/,
      ),
    });
  });

  test('An upload whose server goes away ends at once on an interruption', async () => {
    await using upload = await Upload.start(() => upload.stop());
    upload.onWait = (wait) => {
      // The pauses have grown to two seconds by then.
      if (wait === 4) setImmediate(() => upload.controller.abort(new Interrupted('SIGINT')));
    };
    const began = { at: 0 };
    upload.controller.signal.addEventListener('abort', () => {
      began.at = performance.now();
    });
    expect(await upload.send()).toBeInstanceOf(Interrupted);
    expect(performance.now() - began.at).toBeLessThan(1000);
  });

  test('An upload whose server goes away also ends on an interruption while it waits for a place', async () => {
    await using upload = await Upload.start((_, response) =>
      json(response, errorKinds.busy.status, { detail: 'The queue is full' }),
    );
    upload.onWait = () => setImmediate(() => upload.controller.abort(new Interrupted('SIGINT')));
    expect(await upload.send()).toBeInstanceOf(Interrupted);
    expect(upload.keys).toHaveLength(1);
  });

  test('An upload whose server goes away does not wait if the server was never reached', async () => {
    await using upload = await Upload.start(accept);
    upload.stop();
    expect(await upload.send({ isMet: false })).toMatchObject({ exitCode: 5, fault: 'unreached' });
    expect([upload.waits, upload.reporter.notes]).toEqual([[], []]);
  });

  test.each([
    ['is shutting down', 503, JSON.stringify({ detail: shuttingDownDetail })],
    ['is missing behind its proxy', 502, '<html><h1>502 Bad Gateway</h1></html>'],
    ['is not available behind its proxy', 503, '<html>No server is available</html>'],
    ['has waited for it for too long', 408, '{"detail":"No byte of the upload arrived for 60 s"}'],
  ])('A server that goes away during an upload is waited for if it %s', async (_, status, body) => {
    await using upload = await Upload.start(
      (__, response) => void response.writeHead(status).end(body),
      accept,
    );
    expect(await upload.send()).toEqual(envelope);
    expect(upload.keys).toHaveLength(2);
  });

  test.each([
    [503, 'The server has no GPU'],
    [401, 'This account is closed'],
  ])('An upload does not repeat what the next server refuses with %i', async (status, detail) => {
    await using upload = await Upload.start((__, response) => json(response, status, { detail }));
    expect(await upload.send()).toMatchObject({ status, message: detail });
    expect(upload.keys).toHaveLength(1);
  });

  test('An upload whose server goes away is abandoned if it stalls again and again without progress', async () => {
    const detail = 'No byte of the upload arrived for 60 s';
    await using upload = await Upload.start((_, response) => json(response, 408, { detail }));
    expect(await upload.send()).toMatchObject({
      exitCode: 3,
      message: expect.stringMatching(
        /^No byte .* gave up on the upload after 4 times its bytes were sent; the server may/,
      ),
    });
    expect(upload.keys).toHaveLength(4);
  }, 120_000);

  test('An upload whose server goes away is not sent again if a file has changed meanwhile', async () => {
    await using upload = await Upload.start((_, __, raw) => void raw.socket.destroy(), accept);
    upload.onWait = () => writeFileSync(upload.file, 'VOLUME');
    expect(await upload.send()).toMatchObject({
      exitCode: 1,
      message: `'${upload.file}' changed while it was sent; send it again`,
    });
    expect(upload.keys).toHaveLength(1);
  });
});
