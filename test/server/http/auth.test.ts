import { describe, expect, test } from 'vitest';
import { least } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';

const routes = [
  ['GET', '/health'],
  ['GET', '/available_devices'],
  ['GET', '/ram'],
  ['GET', '/vram?devices=0'],
  ['GET', '/repo_apps_list'],
  ['GET', '/repo_apps/probe'],
  ['GET', '/repo_apps_config/probe'],
  ['POST', '/apps/probe/infer'],
  ['POST', '/apps/probe/evaluate'],
  ['POST', '/apps/probe/uncertainty'],
  ['POST', '/apps/probe/pipeline'],
  ['POST', '/apps/probe/fine_tune'],
  ['GET', '/jobs'],
  ['GET', '/jobs/0123456789ab'],
  ['GET', '/jobs/0123456789ab/logs'],
  ['GET', '/jobs/0123456789ab/result'],
  ['HEAD', '/jobs/0123456789ab/result'],
  ['POST', '/jobs/0123456789ab/kill'],
  ['GET', '/nothing'],
  ['DELETE', '/health'],
  ['OPTIONS', '/jobs'],
] as const;

describe('with a token', () => {
  const server = sharedServer({ token: 'S3cret-token' });

  async function answer(method: string, path: string, authorization?: string): Promise<Response> {
    const headers = authorization === undefined ? {} : { Authorization: authorization };
    return fetch(server.url + path, { method, headers });
  }

  async function expectRefused(response: Response, detail: string): Promise<void> {
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    const text = await response.text();
    if (text !== '') expect(JSON.parse(text)).toEqual({ detail });
  }

  test.for(routes)('%s %s is refused without a token and with a wrong one', async ([method, path]) => {
    await expectRefused(await answer(method, path), 'Missing bearer token');
    await expectRefused(await answer(method, path, 'Bearer wrong'), 'Invalid token');
  });

  test.for([
    '',
    'Bearer',
    'Bearer ',
    'Basic UzNjcmV0',
    'S3cret-token',
    'Token S3cret-token',
    'BearerS3cret-token',
  ])('A header without a bearer token counts as a missing token: %s', async (authorization) => {
    await expectRefused(await answer('GET', '/health', authorization), 'Missing bearer token');
  });

  test.for(['Bearer S3cret-toke', 'Bearer S3cret-token1', 'Bearer s3cret-token', 'Bearer S3cret-token x'])(
    'A slightly different token is invalid: %s',
    async (authorization) => {
      await expectRefused(await answer('GET', '/health', authorization), 'Invalid token');
    },
  );

  test.for(['Bearer S3cret-token', 'bearer S3cret-token', 'BEARER   S3cret-token'])(
    'The token is accepted, however the scheme is written: %s',
    async (authorization) => {
      expect((await answer('GET', '/health', authorization)).status).toBe(200);
    },
  );

  test('A token in the address is ignored', async () => {
    expect((await answer('GET', '/health?token=S3cret-token')).status).toBe(401);
  });

  test('A token that is sent twice is refused', async () => {
    await using connection = await RawConnection.open(server.url);
    connection.write(
      'GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nAuthorization: Bearer S3cret-token\r\n\r\n',
    );
    expect((await connection.answer()).status).toBe(401);
  });

  test('With a token, serve neither warns nor prints the token', async () => {
    await answer('GET', '/health', 'Bearer S3cret-token');
    expect(server.stderr + server.stdout).not.toMatch(/WARNING|S3cret/);
  });
});

describe.each([
  ['no token', {}],
  ['an empty token', { environment: { SERVICE_API_TOKEN: '' } }],
  ['--auth off', { environment: { SERVICE_API_TOKEN: 'ignored' }, flags: ['--auth', 'off'] }],
] as const)('with %s', (authentication, options) => {
  const server = sharedServer({ ...options });

  test(`With ${authentication}, every endpoint is open, whatever the header`, async () => {
    expect((await server.api.json('/health')).status).toBe('ok');
    const headers = { Authorization: 'Bearer anything' };
    expect((await fetch(`${server.url}/jobs`, { headers })).status).toBe(200);
    expect((await server.api.submit('infer', least.infer)).status).toBe(200);
  });

  test(`With ${authentication}, serve says on stderr that it is open`, () => {
    expect(server.stderr).toMatch(/^WARNING: .*open/m);
  });
});

describe('with --token-env', () => {
  const server = sharedServer({
    token: 'of the default variable',
    environment: { LAB_TOKEN: 'lab' },
    flags: ['--token-env', 'LAB_TOKEN'],
  });

  test('The token is read from the named variable', async () => {
    const status = async (token: string) =>
      (await fetch(`${server.url}/health`, { headers: { Authorization: `Bearer ${token}` } })).status;
    expect([await status('lab'), await status('of the default variable')]).toEqual([200, 401]);
  });
});
