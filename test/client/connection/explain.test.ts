import { describe, expect, test } from 'vitest';
import type { Reply } from '../../../src/client/connection/index.js';
import { refusal } from '../../../src/client/connection/reply.js';
import { explainTransport, type Transport, wasClosed } from '../../../src/client/connection/transport.js';
import { Interrupted, UsageError } from '../../../src/client/errors.js';

const failing = (code: string, message = 'x', more: object = {}) =>
  Object.assign(new Error(message), { code, ...more });

describe('a failure below HTTP', () => {
  const server = 'https://gpu';
  test.each([
    [failing('ECONNREFUSED'), 'unreached', `${server} cannot be reached: nothing listens there`],
    [
      new Error('x', { cause: failing('ENOTFOUND') }),
      'unreached',
      `${server} cannot be reached: no such host`,
    ],
    [failing('UND_ERR_BODY_TIMEOUT'), 'timeout', `${server} has been silent for too long`],
    [
      failing('EPIPE', 'write EPIPE'),
      'broken',
      `The connection to ${server} broke: it was closed on the other side`,
    ],
    [failing('UND_ERR_SOCKET', 'other side closed'), 'broken', 'broke: it was closed on the other side'],
    [failing('EOTHER', 'in words'), 'broken', `The connection to ${server} broke: in words`],
    [failing('CERT_HAS_EXPIRED', 'expired'), 'unusable', `TLS with ${server} fails: expired`],
    [failing('ERR_SSL_X', 'no cipher'), 'unusable', `TLS with ${server} fails: no cipher`],
  ])('A failure below HTTP is explained by its cause: %#', (error, fault, message) => {
    const told = explainTransport(error, server);
    expect(told).toMatchObject({ fault, message: expect.stringContaining(message), cause: error });
  });

  test('An answer that is not HTTP is distinguished from one that ended too soon', () => {
    const parser = (data: string) =>
      Object.assign(new Error('Bad method'), { name: 'HTTPParserError', data });
    expect(explainTransport(parser('SSH-2.0'), server)).toMatchObject({
      name: 'AnswerError',
      message: `${server} answered with something that is not HTTP: Bad method; is it a remote-app server?`,
    });
    expect(explainTransport(parser(''), server)).toMatchObject({ fault: 'broken' });
    expect(explainTransport(failing('ERR_ASSERTION', 'false == true'), server).message).toBe(
      `${server} answered with something that is not HTTP; is it a remote-app server?`,
    );
    const closed = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'ECONNREFUSED'].map((code) =>
      wasClosed(failing(code)),
    );
    expect(closed).toEqual([true, true, true, false]);
  });

  test('A failure below HTTP yields to an interruption or a time-out, names the proxy, and is explained only once', () => {
    const broken = failing('ECONNRESET');
    const interrupted = new Interrupted('SIGINT');
    const late = AbortSignal.abort(new DOMException('x', 'TimeoutError'));
    expect(explainTransport(broken, server, AbortSignal.abort(interrupted))).toBe(interrupted);
    expect(explainTransport(broken, server, late)).toMatchObject({
      fault: 'timeout',
      message: `${server} did not answer in time`,
    });
    expect(explainTransport(broken, server, AbortSignal.abort(new Error('x')))).toMatchObject({
      fault: 'broken',
    });
    const known = new UsageError('x');
    expect(explainTransport(known, server)).toBe(known);
    expect(explainTransport(failing('ECONNREFUSED'), server, undefined, 'The proxy p').message).toBe(
      'The proxy p cannot be reached: nothing listens there',
    );
  });
});

describe('a refusal', () => {
  const reply = (statusCode: number, headers: object = {}) => ({ statusCode, headers }) as unknown as Reply;
  const told = async (
    status: number,
    body: string | object,
    {
      headers = {},
      path = '/jobs/ab',
      transport,
    }: { headers?: object; path?: string; transport?: object } = {},
  ) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const asked = {
      server: 'http://gpu',
      path,
      list: 'remote-app jobs -p lab',
      transport: transport as Transport,
    };
    return refusal(reply(status, headers), text, asked);
  };

  test('A refusal says what the client knows better: the server, the job, the flag', async () => {
    expect((await told(401, { detail: 'Missing token' })).message).toMatch(
      /^(Missing token|http:\/\/gpu needs a token)/,
    );
    expect((await told(404, { detail: 'Unknown job_id' })).message).toBe(
      "No job 'ab' on http://gpu; 'remote-app jobs -p lab' lists them",
    );
    expect((await told(410, { detail: 'Expired' })).message).toBe(
      'Job ab on http://gpu has no result any more: Expired',
    );
    expect((await told(410, { detail: 'Job ab has expired' })).message).toBe('Job ab has expired');
    expect((await told(404, { detail: 'Not Found' }, { path: '/limits' })).message).toBe(
      'http://gpu has no /limits: is that the address of the service?',
    );
    expect((await told(422, { detail: "Field 'options.patch_size' is wrong" })).message).toBe(
      '--patch-size is wrong',
    );
    expect((await told(400, { detail: "Field 'options.patch_size' is wrong" })).message).toBe(
      "Field 'options.patch_size' is wrong",
    );
    expect(
      (await told(422, { detail: [{ loc: ['body', 'it_validation'], msg: 'bad' }, { msg: 'worse' }] }))
        .message,
    ).toBe('--it-validation: bad; worse');
    expect((await told(500, { error: 'It failed' })).message).toBe('It failed');
    const name = 'a'.repeat(64);
    expect(await told(409, { detail: 'Send these', uploads: [name] })).toMatchObject({
      missing: [name],
      isOfProxy: false,
    });
  });

  test.each([
    ["Field 'options.patch_size' is bad, Field 'tta' too", '--patch-size is bad, --tta too'],
    ["Field 'config_overrides' is bad", '--set is bad'],
    ["Field 'inputs_groups' is bad", "Field 'inputs_groups' is bad"],
    ["the Field 'options.other'", "the Field 'options.other'"],
    ["MyField 'tta'", "MyField 'tta'"],
    ['give --max_voxels or --patch_size=3', 'give --max-voxels or --patch-size=3'],
    ['give --it_validation, not --any_thing', 'give --it-validation, not --any_thing'],
    ['x--patch_size ---patch_size --patch_sizes', 'x--patch_size ---patch_size --patch_sizes'],
  ])('A refusal names the flags as they are typed: %s', async (detail, message) => {
    expect((await told(422, { detail })).message).toBe(message);
  });

  test('A refusal is distinguished from the page of a proxy', async () => {
    const plain = 'The plain HTTP request was sent to HTTPS port';
    expect((await told(400, plain)).message).toBe('http://gpu speaks TLS; use https://gpu');
    expect((await told(500, plain)).message).toBe('http://gpu answered with HTTP 500');
    expect((await told(413, '<p>')).message).toContain("nginx does with 'client_max_body_size 0;'");
    expect(await told(503, '<p>', { headers: { 'retry-after': '7' } })).toMatchObject({
      isOfProxy: true,
      retryAfter: 7,
      message: expect.stringMatching(
        /^A proxy answers at http:\/\/gpu, but the server behind it does not \(HTTP 503\)/,
      ),
    });
    const transport = { name: 'The proxy p', forward: { origin: 'p', headers: {} } };
    expect((await told(403, '<p>', { transport })).message).toMatch(
      /^The proxy p does not let anybody reach http:\/\/gpu \(HTTP 403\)/,
    );
    expect((await told(502, '<p>', { transport })).message).toBe(
      'The proxy p cannot reach http://gpu (HTTP 502)',
    );
    const headers = { location: 'https://x/' };
    expect((await told(301, '<p>', { headers })).message).toBe(
      "http://gpu sends /jobs/ab on to 'https://x/'; if it has moved, give its new address",
    );
    expect((await told(201, { detail: 'x' }, { headers })).message).toBe('x');
  });
});
