import { once } from 'node:events';
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import type { Context } from 'koa';
import { afterAll, describe, expect, test } from 'vitest';
import { withLimits, withRoleLimits } from '../../../src/access/change-tokens.js';
import { AuditLog } from '../../../src/server/audit/audit-log.js';
import { fromClient, proxyList } from '../../../src/server/http/client-address.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { smallDisk } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';
import { TestTokens } from '../../support/tokens.js';
import { sha256, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';

type Line = Readonly<Record<string, unknown>>;

const tokens = new TestTokens();
for (const name of ['ana', 'bob']) tokens.create(name);
afterAll(() => tokens[Symbol.asyncDispose]());
const log = path.join(tokens.directory, 'audit.log');
const linesOf = (name = log): Line[] =>
  existsSync(name)
    ? readFileSync(name, 'utf8')
        .trim()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
    : [];
const find = (facts: Line, name = log) =>
  until(`a line with ${JSON.stringify(facts)}`, () =>
    linesOf(name).find((line) => Object.entries(facts).every(([key, value]) => line[key] === value)),
  );
const onCpu = { cpu: '1' };
const proxySecret = path.join(tokens.directory, 'proxy-secret');
writeFileSync(proxySecret, 'of-the-proxy\n', { mode: 0o600 });

describe('serve --audit-log', () => {
  const server = sharedServer({
    token: 'of-the-environment',
    flags: [
      ...['--tokens', tokens.file, '--audit-log', log],
      ...['--trusted-proxy', '127.0.0.0/8', '--proxy-secret-file', proxySecret],
    ],
  });
  const ana = () => tokens.api(server, 'ana');

  test('The audit log has the address even of a client that resets its connection after its request', async () => {
    const { port } = new URL(server.url);
    for (let count = 0; count < 20; count += 1) {
      const socket = connect(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      socket.write('GET /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n');
      await new Promise((resolve) => setImmediate(resolve));
      socket.resetAndDestroy();
    }
    // Answered after the others were read.
    const headers = { Authorization: 'Bearer wrong' };
    expect((await fetch(`${server.url}/gpus`, { headers })).status).toBe(401);
    expect(linesOf().filter(({ from }) => from === '')).toEqual([]);
    expect(server.stderr).not.toContain(' from :');
  });

  test('The audit log has a line for each submission, end, download, kill and removal, with user, address, subject and size', async () => {
    const api = ana();
    const headers = { 'X-Forwarded-For': '203.0.113.9, 198.51.100.7', 'X-Proxy-Secret': 'of-the-proxy' };
    const form = { inputs: file('secret-name.nii', 'x'.repeat(5000)), ...onCpu };
    const { job_id: id } = await api.accepted('infer', form, { headers });
    await api.ended(id);
    const who = { owner: 'ana', role: 'user', from: '198.51.100.7', job_id: id };
    const submission = await find({ event: 'submission', ...who, app: 'probe', operation: 'infer' });
    expect(Number(submission.bytes)).toBeGreaterThan(5000);
    expect(Date.now() - Date.parse(String(submission.time))).toBeLessThan(60_000);
    const end = await find({ event: 'end', job_id: id, owner: 'ana', status: 'done' });
    expect([typeof end.seconds, end.gpus]).toEqual(['number', []]);
    const result = await api.fetch(`/jobs/${id}/result`, { headers });
    const { length } = Buffer.from(await result.arrayBuffer());
    const download = await find({ event: 'download', ...who, complete: true });
    expect(download.bytes).toBe(length);
    const running = { ...least.infer, ...onCpu, ...steps('wait=/nobody/opens/this') };
    const { job_id: second } = await api.accepted('infer', running);
    await api.kill(second);
    await find({ event: 'kill', owner: 'ana', from: '127.0.0.1', job_id: second });
    await find({ event: 'end', job_id: second, status: 'killed' });
    // An unfinished or a failed job has no result to download.
    await api.fetch(`/jobs/${second}/result`);
    await api.fetch(`/jobs/${second}`, { method: 'DELETE' });
    await find({ event: 'removal', job_id: second });
    expect(linesOf().filter(({ event, job_id }) => event === 'download' && job_id === second)).toEqual([]);
  });

  test('The audit log has a line for each upload that was completed or removed, without its name', async () => {
    const [tus, name] = [new Tus(ana()), sha256('uploaded')];
    await tus.begin('uploaded', 'up');
    await tus.patch(name, 2, 'loaded');
    await tus.remove(name);
    const removal = await find({ event: 'upload-removal', owner: 'ana', role: 'user', from: '127.0.0.1' });
    expect(linesOf().filter(({ event }) => event === 'upload')).toMatchObject([{ owner: 'ana', bytes: 8 }]);
    expect('job_id' in removal).toBe(false);
    expect((await tus.remove(name)).status).toBe(404);
    await find({ event: 'refusal', owner: 'ana', error: 'unknownUpload', route: 'removeUpload' });
    expect(linesOf().filter(({ event }) => event === 'upload-removal')).toHaveLength(1);
    expect(readFileSync(log, 'utf8')).not.toContain(name);
  });

  test('The audit log has the address reported by a proxy only if it knows the secret, which no other user of the machine does', async () => {
    for (const [index, secret] of ['of-the-proxy', 'guessed', ''].entries()) {
      const headers = { 'X-Forwarded-For': `203.0.113.${50 + index}`, 'X-Proxy-Secret': secret };
      await ana().fetch(`/jobs/00000000000${index}`, { headers });
    }
    const from = () => linesOf().flatMap(({ error, from }) => (error === 'unknownJob' ? [from] : []));
    await until('all are refused', () => from().length >= 3);
    expect(from().slice(-3)).toEqual(['203.0.113.50', '127.0.0.1', '127.0.0.1']);
  });

  test('The audit log records for a download how many bytes of the result were sent, and whether it was complete', async () => {
    const api = ana();
    const { job_id: id } = await api.accepted('infer', {
      ...least.infer,
      ...onCpu,
      // More than the buffers of a connection take.
      ...steps(`fill=a.raw:${24 << 20}`),
    });
    await api.ended(id);
    const archive = path.join(server.jobDirectory(id), 'result.zip');
    const { size } = statSync(archive);
    const line = (facts: Line) => find({ event: 'download', job_id: id, ...facts });
    const get = async (range?: string) =>
      (await api.fetch(`/jobs/${id}/result`, range ? { headers: { Range: range } } : {})).arrayBuffer();
    expect((await api.fetch(`/jobs/${id}/result`, { method: 'HEAD' })).status).toBe(200);
    await get('bytes=0-10');
    await line({ bytes: 11, complete: false });
    await get('bytes=0-');
    await line({ bytes: size, complete: true });
    const leaving = await RawConnection.open(server.url);
    leaving.socket.once('data', () => leaving.socket.resetAndDestroy());
    leaving.write(
      `GET /jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${tokens.of('ana')}\r\nX-Forwarded-For: 203.0.113.8\r\nX-Proxy-Secret: of-the-proxy\r\n\r\n`,
    );
    const left = await line({ from: '203.0.113.8', complete: false });
    expect(left.bytes).toBeLessThan(size);
    // Without an archive the result is packed while it is sent.
    rmSync(archive);
    const before = linesOf().length;
    const { byteLength } = await get();
    await until('it is noted', () => linesOf().length > before);
    expect(linesOf().filter((each) => each.event === 'download' && each.job_id === id)).toHaveLength(4);
    expect(linesOf().at(-1)).toMatchObject({ event: 'download', bytes: byteLength, complete: true });
  });

  test('The audit log has a line for each refusal, with the name of the token', async () => {
    await fetch(`${server.url}/jobs`, { headers: { Authorization: 'Bearer nonsense-token' } });
    await find({
      event: 'refusal',
      owner: null,
      role: null,
      status: 401,
      error: 'invalidToken',
      method: 'GET',
    });
    await ana().fetch('/jobs/ffffffffffff/result');
    await find({ event: 'refusal', owner: 'ana', status: 404, error: 'unknownJob', route: 'result' });
    await ana().submit('infer', { ...least.infer, tta: 'secret-value' });
    await find({ event: 'refusal', owner: 'ana', status: 422, route: 'infer' });
  });

  test('The audit log has a line each time the server is drained or resumes accepting jobs', async () => {
    for (const [method, draining] of [
      ['POST', true],
      ['DELETE', false],
    ] as const) {
      await server.api.json('/drain', { method });
      await find({ event: 'drain', owner: null, role: 'admin', from: '127.0.0.1', draining });
    }
  });

  test('The audit log has a line for each change of a token', async () => {
    const changed = async (change: string, name: string) => {
      await until('the file is looked at', async () => (await server.api.fetch('/health')).ok);
      await until(`${name} is ${change}`, async () => {
        await server.api.fetch('/health');
        return linesOf().some(
          (line) => line.event === 'token' && line.change === change && line.token === name,
        );
      });
    };
    tokens.create('cem', { role: 'admin' });
    await changed('created', 'cem');
    tokens.rotate('cem');
    await changed('rotated', 'cem');
    tokens.revoke('cem');
    await changed('revoked', 'cem');
    expect(await find({ event: 'token', change: 'created', token: 'cem' })).toMatchObject({ role: 'admin' });
  });

  test('The audit log has a line for each change of the limits of a token or a role, with the new and the old values', async () => {
    tokens.create('dia', { expires: '2100-01-01T00:00:00.000Z' });
    tokens.edit((before) => withLimits(before, 'dia', { max_jobs: 2 }));
    await find({ event: 'token', token: 'dia' });
    tokens.edit((before) => withLimits(before, 'dia', { max_jobs: 5, max_kept: null }));
    const expires_at = '2100-01-01T00:00:00.000Z';
    expect(await find({ event: 'token', change: 'changed', token: 'dia' })).toMatchObject({
      role: 'user',
      expires_at,
      limits: { max_jobs: 5, max_kept: null },
      was: { role: 'user', expires_at, limits: { max_jobs: 2 } },
    });
    tokens.edit((before) => withRoleLimits(before, 'user', { max_gpus: 3 }));
    const role = await find({ event: 'token', change: 'role', role: 'user' });
    expect(role).toMatchObject({ token: null, limits: { max_gpus: 3 }, was: { limits: {} } });
    tokens.edit((before) => ({ ...before, tokens: before.tokens.filter(({ name }) => name !== 'dia') }));
    const removed = await find({ event: 'token', change: 'removed', token: 'dia' });
    expect(removed).toMatchObject({
      role: null,
      limits: null,
      was: { role: 'user', limits: { max_jobs: 5 } },
    });
  });

  test('The audit log never contains a token, a file name or a submitted value', () => {
    const text = readFileSync(log, 'utf8');
    for (const secret of [
      'secret-name',
      'secret-value',
      'nonsense-token',
      'sha256',
      tokens.of('ana'),
      'of-the-environment',
    ])
      expect(text).not.toContain(secret);
    expect(statSync(log).mode & 0o777).toBe(0o600);
  });

  test('The audit log is reopened after a SIGHUP once an admin has moved it, and the old file is left alone', async () => {
    renameSync(log, `${log}.1`);
    await ana().fetch('/jobs/eeeeeeeeeeee');
    await find({ event: 'refusal', error: 'unknownJob', route: 'job' }, `${log}.1`);
    const before = linesOf(`${log}.1`).length;
    server.reload();
    await until('there is a new one', () => existsSync(log));
    await ana().fetch('/jobs/eeeeeeeeeeee');
    await find({ event: 'refusal', error: 'unknownJob', route: 'job' });
    expect(linesOf(`${log}.1`)).toHaveLength(before);
  });

  test('The audit log is appended to after a restart', async () => {
    const before = linesOf().length;
    await server.restart();
    await ana().fetch('/jobs/dddddddddddd');
    await until('there is one more', () => linesOf().length > before);
  });
});

const disk = smallDisk(1);

describe.skipIf(disk === null)('on a full disk', () => {
  test('On a full disk the service continues; this is reported once, and the lost lines are counted', () => {
    const said: string[] = [];
    const name = path.join(disk ?? '', 'audit.log');
    const audit = new AuditLog(name, (problem) => said.push(problem));
    audit.write({ event: 'kill', job_id: 'first' });
    const filler = path.join(disk ?? '', 'filler');
    expect(() => writeFileSync(filler, Buffer.alloc(2 << 20))).toThrow(/ENOSPC/);
    // What is left of the log's own block is soon full as well.
    for (let count = 0; count < 200; count += 1) audit.write({ event: 'kill', job_id: 'x'.repeat(100) });
    expect(said).toEqual([expect.stringContaining('The audit log cannot be written; the service goes on')]);
    rmSync(filler);
    audit.write({ event: 'kill', job_id: 'last' });
    audit.close();
    const lines = linesOf(name);
    const [noted, last] = lines.slice(-2);
    expect([noted?.event, last?.job_id]).toEqual(['lost', 'last']);
    expect(lines.filter(({ event }) => event === 'kill').length + Number(noted?.lines)).toBe(202);
  });
});

describe('the end of a log that is opened again', () => {
  const entry = '{"time":"2026-11-01T00:00:00.000Z","event":"kill","job_id":"whole"}';
  const openedAfter = async (text: string) => {
    await using directory = await temporary();
    const name = path.join(directory.path, 'audit.log');
    writeFileSync(name, text);
    const audit = new AuditLog(name, expect.fail);
    audit.write({ event: 'kill', job_id: 'next' });
    audit.close();
    const written = readFileSync(name, 'utf8');
    const next = written.split('\n').at(-2) ?? '';
    expect(JSON.parse(next)).toMatchObject({ job_id: 'next' });
    return written.slice(0, written.length - next.length - 1);
  };

  test.for([
    ['a part of a line is ended', `${entry}\n${entry.slice(0, 44)}`, `${entry}\n${entry.slice(0, 44)}\n`],
    ['a line that lacks only its end is ended', `${entry}\n${entry}`, `${entry}\n${entry}\n`],
    ['whole lines stay', `${entry}\n`, `${entry}\n`],
  ] as const)('When a log is opened again, %s', async ([, before, after]) => {
    expect(await openedAfter(before)).toBe(after);
  });
});

test('A client that asks whether an upload exists is not counted as refused in the audit log, the journal and the metrics', async () => {
  const own = path.join(tokens.directory, 'asked.log');
  await using server = await TestServer.start({ flags: ['--audit-log', own, '--metrics'] });
  const [tus, name] = [new Tus(server.api), sha256('never sent')];
  expect([(await tus.head(name)).status, (await tus.remove(name)).status]).toEqual([404, 404]);
  await find({ event: 'refusal', route: 'removeUpload' }, own);
  expect(linesOf(own).filter(({ event }) => event === 'refusal')).toHaveLength(1);
  const metrics = await (await server.api.fetch('/metrics')).text();
  expect(metrics).toMatch(/^remote_app_refusals_total\{.*error="unknownUpload".*\} 1$/m);
  expect(server.stderr).toMatch(/Refused DELETE \/uploads\/\{sha256\} from/);
  expect(server.stderr).not.toContain('Refused HEAD');
  expect(server.stderr + readFileSync(own, 'utf8')).not.toContain(name);
});

test('A proxy on this machine without a secret is not trusted, and startup reports that', async () => {
  const own = path.join(tokens.directory, 'without-secret.log');
  const flags = ['--audit-log', own, '--trusted-proxy', '127.0.0.1'];
  await using server = await TestServer.start({ flags });
  expect(server.stderr).toMatch(
    /^WARNING: --trusted-proxy 127\.0\.0\.1: X-Forwarded-For is ignored .*--proxy-secret-file/m,
  );
  await server.api.fetch('/jobs/000000000000', { headers: { 'X-Forwarded-For': '203.0.113.9' } });
  await find({ event: 'refusal', from: '127.0.0.1' }, own);
});

describe('the origin of a request', () => {
  const trusted = proxyList(['127.0.0.1', '10.0.0.0/8', '::1']);

  test.for([
    ['192.0.2.1', '203.0.113.9', '192.0.2.1'],
    ['127.0.0.1', '', '127.0.0.1'],
    ['::ffff:127.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', '198.51.100.1, 203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', '203.0.113.9, 10.1.2.3', '203.0.113.9'],
    ['127.0.0.1', '10.1.2.3', '10.1.2.3'],
    ['::1', '[2001:db8::5]:443', '2001:db8::5'],
    ['::1', '203.0.113.9:1234', '203.0.113.9'],
    ['127.0.0.1', '::ffff:203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', 'not an address', '127.0.0.1'],
    ['127.0.0.1', '203.0.113.9, <script>', '127.0.0.1'],
  ] as const)(
    'A request from %s with the header "%s" has the address %s',
    ([remote, forwarded, expected]) => {
      const request = { ip: '' };
      const ctx = {
        req: { socket: { remoteAddress: remote } },
        get: (name: string) => (name === 'X-Proxy-Secret' ? 'right' : forwarded),
        request,
      };
      fromClient(trusted, 'right')(ctx as unknown as Context, async () => {});
      expect(request.ip).toBe(expected);
    },
  );

  test.for(['10.0.0.0/33', '10.0.0.0/', '::1/129', '10.0.0.0/8/8x', 'localhost', ''])(
    '%j is refused as the address of a proxy',
    (text) => {
      expect(() => proxyList([text])).toThrow(
        `--trusted-proxy: '${text}' is neither an address nor a network such as 10.0.0.0/8`,
      );
    },
  );
});
