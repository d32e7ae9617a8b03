import { chmodSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Access } from '../../../src/server/access/access.js';
import { ServerEvents } from '../../../src/server/events.js';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import { filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { withNoDescriptors } from '../../support/no-descriptors.js';
import { RawConnection } from '../../support/raw-http.js';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { until } from '../../support/until.mjs';

/** The status of a request with this token. */
const status = async (server: TestServer, token: string): Promise<number> =>
  (await fetch(`${server.url}/health`, { headers: { Authorization: `Bearer ${token}` } })).status;

const detail = async (server: TestServer, token: string): Promise<string> => {
  const answer = await fetch(`${server.url}/health`, { headers: { Authorization: `Bearer ${token}` } });
  return ((await answer.json()) as { detail: string }).detail;
};

/** How a server ends that cannot start. */
const failedStart = (tokens: TestTokens): Promise<string> =>
  TestServer.start({ flags: ['--tokens', tokens.file] }).then(
    async (server) => {
      await server[Symbol.asyncDispose]();
      return 'started';
    },
    (error: Error) => error.message,
  );

describe('named tokens', () => {
  const tokens = new TestTokens();
  tokens.create('ana');
  tokens.create('root', { role: 'admin' });
  afterAll(() => tokens[Symbol.asyncDispose]());
  const server = sharedServer({ token: 'of-the-environment', flags: ['--tokens', tokens.file] });

  test('Named tokens are accepted beside the token of the environment, and no others are', async () => {
    for (const token of [tokens.of('ana'), tokens.of('root'), 'of-the-environment'])
      expect(await status(server, token)).toBe(200);
    for (const token of ['wrong', `${tokens.of('ana')}x`, tokens.of('ana').slice(0, -1), 'ana'])
      expect(await detail(server, token)).toBe('Invalid token');
  });

  test('Named tokens that were created, rotated or revoked take effect with the next request', async () => {
    const made = tokens.create('late');
    expect(await status(server, made)).toBe(200);
    const next = tokens.rotate('late');
    expect([await status(server, made), await status(server, next)]).toEqual([401, 200]);
    tokens.revoke('late');
    expect(await status(server, next)).toBe(401);
    expect(await detail(server, next)).toBe('Invalid token');
  });

  test('Named tokens stop working when they expire, and their holders are told so', async () => {
    const expires = new Date(Date.now() + 2500).toISOString();
    const token = tokens.create('guest', { expires });
    await until('it lets in', async () => (await status(server, token)) === 200);
    await until('it is over', async () => (await status(server, token)) === 401);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expires));
    expect(await detail(server, token)).toBe(
      `Invalid token: it expired at ${expires}; ask the admin of the server for a new one`,
    );
  });

  test('Named tokens are refused as soon as somebody edits the file to revoke them', async () => {
    const token = tokens.create('noted');
    await until('it lets in', async () => (await status(server, token)) === 200);
    const document = JSON.parse(readFileSync(tokens.file, 'utf8'));
    for (const entry of document.tokens)
      if (entry.name === 'noted') entry.revoked_at = '2020-01-01T00:00:00.000Z';
    // As some editors write it.
    writeFileSync(tokens.file, `\ufeff${JSON.stringify(document)}`);
    await until('it is refused', async () => (await status(server, token)) === 401);
  });

  test('Named tokens stay in effect while their file is broken, writable by others or missing, and serve reports it', async () => {
    const good = readFileSync(tokens.file);
    const damages: readonly (readonly [() => void, RegExp, () => void])[] = [
      [() => writeFileSync(tokens.file, '{"tok'), /it is not JSON/, () => writeFileSync(tokens.file, good)],
      [
        () => chmodSync(tokens.file, 0o666),
        /can be written by others; run 'chmod go-w /,
        () => chmodSync(tokens.file, 0o600),
      ],
      [
        () => chmodSync(tokens.directory, 0o777),
        /etc' can be written by others/,
        () => chmodSync(tokens.directory, 0o755),
      ],
      [
        () => renameSync(tokens.file, `${tokens.file}.away`),
        /no such file/,
        () => renameSync(`${tokens.file}.away`, tokens.file),
      ],
    ];
    for (const [damage, said, mend] of damages) {
      const before = server.stderr.length;
      damage();
      await until(`serve says ${said}`, async () => {
        expect(await status(server, tokens.of('ana'))).toBe(200);
        return said.test(server.stderr.slice(before));
      });
      expect(server.stderr.slice(before)).toContain('The tokens stay as they were read before');
      mend();
      const made = tokens.create(`after-${before}`);
      await until('the mended file counts', async () => (await status(server, made)) === 200);
      const again = server.stderr.slice(before).match(/The token file can be used again: \d+ tokens/g);
      expect(again).toHaveLength(1);
    }
  });

  test('Named tokens are reloaded after a read that failed for lack of descriptors, which is reported once', async () => {
    await using file = new TestTokens();
    const token = file.create('ana');
    const told: string[] = [];
    const report = (what: string, why: unknown) => void told.push(`${what}: ${why}`);
    const access = new Access(
      { token: null, tokensFile: file.file, userLimits: {} },
      new ServerEvents(report),
      report,
    );
    file.revoke('ana');
    await withNoDescriptors(() => {
      access.reload();
      expect(access.identify(token).name).toBe('ana');
    });
    expect(told).toEqual([expect.stringMatching(/^The tokens stay .*: The tokens in /)]);
    expect(() => access.identify(token)).toThrow('Invalid token');
    expect(told).toHaveLength(1);
  });

  test('Named tokens are stored only as hashes, and serve never prints them', async () => {
    expect(readFileSync(tokens.file, 'utf8')).not.toContain(tokens.of('ana'));
    expect(server.stderr + server.stdout).not.toContain(tokens.of('ana'));
    expect(server.stderr).not.toContain('sha256:');
  });
});

describe('operations in progress', () => {
  const tokens = new TestTokens();
  afterAll(() => tokens[Symbol.asyncDispose]());
  for (const name of ['keeps', 'root']) tokens.create(name, { role: name === 'root' ? 'admin' : 'user' });
  const server = sharedServer({ flags: ['--tokens', tokens.file, '--max-jobs', '8'] });
  const body = multipart([filePart('inputs', 'a.nii')]);
  const authorization = (name: string) => `Authorization: Bearer ${tokens.of(name)}`;

  /** An upload of which a few bytes are missing. */
  async function halfUpload(name: string): Promise<RawConnection> {
    const before = server.jobDirectories().length;
    const connection = await RawConnection.open(server.url);
    const lines = [`Content-Length: ${body.length}`, authorization(name)];
    const head = submissionHead('/apps/probe/infer', ...lines);
    connection.write(Buffer.concat([head, body.subarray(0, -20)]));
    await until('the upload has begun', () => server.jobDirectories().length === before + 1);
    return connection;
  }

  /** A GET whose answer has begun like this; of a slow one no more is read for now. */
  async function begun(name: string, where: string, pattern: RegExp, isSlow = false): Promise<RawConnection> {
    const connection = await RawConnection.open(server.url);
    if (isSlow) connection.readOneChunk();
    connection.write(`GET ${where} HTTP/1.1\r\nHost: localhost\r\n${authorization(name)}\r\n\r\n`);
    await connection.until(pattern);
    return connection;
  }

  /** Changes the entry of that name in the file. */
  const change = (name: string, made: object | null) =>
    tokens.edit((before) => ({
      ...before,
      tokens: before.tokens.flatMap((each) => (each.name !== name ? each : made ? { ...each, ...made } : [])),
    }));

  test.for<[how: string, take: (name: string) => unknown]>([
    ['is revoked', (name) => tokens.revoke(name)],
    ['expires', (name) => change(name, { expires_at: new Date(Date.now() + 700).toISOString() })],
    ['is somebody else now', (name) => change(name, { name: `${name}-2` })],
  ])('Uploads, log streams and downloads end when their token %s', async ([how, take]) => {
    const name = how.replaceAll(' ', '-');
    const token = tokens.create(name);
    await until('it lets in', async () => (await status(server, token)) === 200);
    const api = tokens.api(server, name);
    const gate = server.gate();
    const held = { ...least.infer, ...steps('print=x', `wait=${gate.path}`) };
    const done = await api.run('infer', { ...least.infer, ...steps(`fill=noise:${24 << 20}`) });
    const running = await api.running('infer', held, 'x');
    await using download = await begun(name, `/jobs/${done.id}/result`, /^HTTP\/1\.1 200/, true);
    await using upload = await halfUpload(name);
    await using kept = await halfUpload('keeps');
    await using log = await begun(name, `/jobs/${running}/logs`, /data: x\n/);
    await using idle = await begun(name, '/health', /\{"status":"ok"\}$/);
    take(name);
    expect(await upload.answer()).toMatchObject({
      status: 401,
      body: expect.stringContaining('Invalid token'),
    });
    download.socket.resume();
    for (const cut of [log, download]) await until('it is cut', () => cut.isClosed);
    // Nothing is under way there.
    idle.received = '';
    idle.write(`GET /health HTTP/1.1\r\nHost: localhost\r\n${authorization(name)}\r\n\r\n`);
    expect((await idle.answer()).status).toBe(how === 'is somebody else now' ? 200 : 401);
    expect(log.received).not.toMatch(/__(DONE|ERROR)__/);
    expect(download.received.length).toBeLessThan(24 << 20);
    gate.open();
    kept.write(body.subarray(-20));
    expect((await kept.answer()).status).toBe(200);
    await until(
      'its place is free',
      () => readdirSync(path.join(server.dataDirectory, 'incoming')).length === 0,
    );
  });

  test('An upload does not become a job if its last byte comes right after its token was revoked', async () => {
    const token = tokens.create('late');
    await until('it lets in', async () => (await status(server, token)) === 200);
    await using upload = await halfUpload('late');
    tokens.revoke('late');
    upload.write(body.subarray(-20));
    expect((await upload.answer()).status).toBe(401);
    const { jobs } = await tokens.api(server, 'root').json<{ jobs: { owner: string }[] }>('/jobs?all=1');
    expect(jobs.filter(({ owner }) => owner === 'late')).toEqual([]);
  });

  test("Admin rights end when the token's role changes", async () => {
    const token = tokens.create('chief', { role: 'admin' });
    await until('it lets in', async () => (await status(server, token)) === 200);
    const gate = server.gate();
    const id = await tokens
      .api(server, 'keeps')
      .running('infer', { ...least.infer, ...steps('print=x', `wait=${gate.path}`) }, 'x');
    const chief = tokens.api(server, 'chief');
    await using log = await begun('chief', `/jobs/${id}/logs`, /data: x\n/);
    await using upload = await halfUpload('chief');
    change('chief', { role: 'user' });
    await until('it is cut', () => log.isClosed);
    expect((await chief.fetch(`/jobs/${id}/logs`)).status).toBe(404);
    upload.write(body.subarray(-20));
    expect((await upload.answer()).status).toBe(200);
    gate.open();
  });
});

describe('serve --tokens', () => {
  test('serve --tokens requires clients to send a token even if the environment has none, and does not warn', async () => {
    await using tokens = new TestTokens();
    tokens.create('ana');
    await using server = await TestServer.start({ flags: ['--tokens', tokens.file] });
    expect((await fetch(`${server.url}/health`)).status).toBe(401);
    expect(await status(server, tokens.of('ana'))).toBe(200);
    expect(server.stderr).not.toContain('WARNING');
  });

  test('serve --tokens satisfies --auth required, and --check validates the file', async () => {
    await using tokens = new TestTokens();
    tokens.create('ana');
    tokens.create('bob');
    tokens.revoke('bob');
    const flags = ['--tokens', tokens.file, '--auth', 'required'];
    await using server = await TestServer.start({ flags });
    expect(await status(server, tokens.of('ana'))).toBe(200);
    await using cli = await Cli.create();
    const check = ['serve', '--check', '--port', '0', '--data-dir', 'data', ...flags];
    expect((await cli.run(check)).stdout).toMatch(/^ok +token: 1 valid named token in /m);
    chmodSync(tokens.file, 0o666);
    const { code, stdout } = await cli.run(check);
    expect([code, stdout]).toEqual([2, expect.stringMatching(/^PROBLEM +token: .*chmod go-w/m)]);
  });

  test('serve --tokens --check reports apps of a token that the server lacks', async () => {
    await using tokens = new TestTokens();
    tokens.create('ana', { apps: ['shell', 'prob'] });
    tokens.create('bob', { apps: ['probe'] });
    tokens.create('eve', { apps: ['gone'] });
    tokens.revoke('eve');
    tokens.create('max', { apps: ['liver'] });
    await using cli = await Cli.create();
    const served = ['--apps', apps.probe, '--apps', apps.shell];
    const check = [
      'serve',
      '--check',
      '--port',
      '0',
      '--data-dir',
      'data',
      '--tokens',
      tokens.file,
      ...served,
    ];
    const { stdout } = await cli.run(check, { CUDA_VISIBLE_DEVICES: '' });
    const change = (name: string) =>
      `('remote-app token limit ${name} --apps ...' changes what the token has)`;
    expect(stdout.split('\n').filter((line) => line.includes('  token '))).toEqual([
      `note     token ana: the server has no app 'prob'; did you mean 'probe'? ${change('ana')}`,
      `note     token max: the server has no app 'liver'; it has: probe, shell ${change('max')}`,
    ]);
  });

  test('serve --tokens refuses everybody with a file that has no tokens', async () => {
    await using tokens = new TestTokens();
    writeFileSync(tokens.file, '{"version": 1, "tokens": []}', { mode: 0o600 });
    await using server = await TestServer.start({ flags: ['--tokens', tokens.file] });
    expect((await fetch(`${server.url}/health`)).status).toBe(401);
  });

  test.for([
    ['is not there', (tokens: TestTokens) => rmSync(tokens.file), /no such file.*token create/],
    ['is no JSON', (tokens: TestTokens) => writeFileSync(tokens.file, 'x'), /it is not JSON/],
    [
      'can be written by the group',
      (tokens: TestTokens) => chmodSync(tokens.file, 0o620),
      /can be written by others/,
    ],
    [
      'can be written by all',
      (tokens: TestTokens) => chmodSync(tokens.file, 0o602),
      /can be written by others/,
    ],
    [
      'lies where others can replace it',
      (tokens: TestTokens) => chmodSync(tokens.directory, 0o777),
      /can be written by others/,
    ],
  ] as const)('serve --tokens does not start with a file that %s', async ([, damage, said]) => {
    await using tokens = new TestTokens();
    tokens.create('ana');
    damage(tokens);
    expect(await failedStart(tokens)).toMatch(said);
  });

  test('serve --tokens accepts a file in a world-writable directory with the sticky bit', async () => {
    await using tokens = new TestTokens();
    tokens.create('ana');
    chmodSync(tokens.directory, 0o1777);
    await using server = await TestServer.start({ flags: ['--tokens', tokens.file] });
    expect(await status(server, tokens.of('ana'))).toBe(200);
    expect(statSync(tokens.directory).mode & 0o7777).toBe(0o1777);
  });

  test('serve --tokens contradicts --auth off', async () => {
    await using tokens = new TestTokens();
    tokens.create('ana');
    const started = TestServer.start({ flags: ['--tokens', tokens.file, '--auth', 'off'] });
    await expect(started).rejects.toThrow(/--auth off asks nobody for a token/);
  });
});
