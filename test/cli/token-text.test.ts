import { Parser } from '@oclif/core';
import { expect, test } from 'vitest';
import type { TokenEntry } from '../../src/access/index.js';
import {
  allowedLine,
  appsFlag,
  expiresFlag,
  limitFlags,
  limitLine,
  limitsOf,
  listedToken,
  tokenTable,
} from '../../src/cli/tokens/index.js';

const now = Date.parse('2026-11-26T12:00:00Z');
const ago = (days: number) => new Date(now - days * 86_400_000).toISOString();

const token = (name: string, more: object = {}) =>
  ({
    ...{ name, role: 'user', hash: 'sha256:x', created_at: ago(3), expires_at: null, revoked_at: null },
    ...{ limits: {}, ...more },
  }) as unknown as TokenEntry;

test('Limits are on one line, including lifted ones, and the apps follow', () => {
  expect(limitLine({ max_jobs: 1, max_gpus: 2, max_kept: 1024, max_upload: 2048 })).toBe(
    'at most 1 active job; at most 2 GPUs; at most 1.0 KiB kept; uploads of at most 2.0 KiB',
  );
  expect(limitLine({ max_jobs: null, max_gpus: null, max_kept: null, max_upload: null })).toBe(
    'no limit on active jobs; no limit on GPUs; no limit on bytes kept; no limit on uploads',
  );
  expect(allowedLine({ limits: { max_gpus: 1 }, apps: ['a', 'b'] })).toBe('at most 1 GPU; only 2 apps: a, b');
  expect(allowedLine({ limits: {} })).toBe('');
});

const roles = { user: { max_jobs: 4, max_gpus: 2 } } as unknown as Parameters<typeof listedToken>[2];

test('A token without a limit of its own inherits the stricter one of its role and the server', () => {
  const inherited = (limits: object, server: { max_jobs: number; max_upload_size: number } | null) =>
    listedToken(token('ana', { limits }), 'active', roles, server && { usage: [], limits: server }).inherited;
  const role = { max_jobs: { most: 4, of: 'role' }, max_gpus: { most: 2, of: 'role' } };
  expect(inherited({}, null)).toEqual(role);
  const upload = { max_upload: { most: 10, of: 'server' } };
  expect(inherited({}, { max_jobs: 4, max_upload_size: 10 })).toEqual({ ...role, ...upload });
  expect(inherited({}, { max_jobs: 3, max_upload_size: 10 })).toEqual({
    ...role,
    ...upload,
    max_jobs: { most: 3, of: 'server' },
  });
  // Its own limit counts, wider than its role's, up to the server's; a lifted one does not lift the server's.
  expect(inherited({ max_jobs: 8, max_upload: 5 }, { max_jobs: 9, max_upload_size: 10 })).toEqual({
    max_gpus: role.max_gpus,
  });
  expect(inherited({ max_jobs: null, max_gpus: 1 }, { max_jobs: 9, max_upload_size: 10 })).toEqual({
    ...upload,
    max_jobs: { most: 9, of: 'server' },
  });
});

test('A token is listed without its hash, with the last use and all bytes of its own jobs', () => {
  const usage = [
    { owner: 'ana', last_used: ago(2), bytes_kept: 1024 },
    { owner: 'ana', last_used: ago(1), bytes_kept: 1024 },
    { owner: 'ana', last_used: ago(4), bytes_kept: 0 },
    { owner: 'ben', last_used: ago(0), bytes_kept: 4096 },
  ] as unknown as NonNullable<Parameters<typeof listedToken>[3]>['usage'];
  const told = { usage, limits: null };
  const { hash: _, ...shown } = token('ana');
  expect(listedToken(token('ana'), 'revoked', {} as typeof roles, told)).toEqual({
    ...shown,
    ...{ state: 'revoked', inherited: {}, last_used: ago(1), bytes_kept: 2048 },
  });
  expect(listedToken(token('eve'), 'active', {} as typeof roles, told)).toMatchObject({
    ...{ last_used: null, bytes_kept: 0 },
  });
  expect(listedToken(token('ana'), 'active', {} as typeof roles, null)).not.toHaveProperty('last_used');
});

test('Tokens are a table with the columns that any of them has', () => {
  const list = (entry: TokenEntry, told: Parameters<typeof listedToken>[3] = null) =>
    listedToken(entry, 'active', roles, told);
  const plain = { ...list(token('ana', { expires_at: ago(-30) })), inherited: {} };
  expect(tokenTable([plain], now)).toEqual([
    'NAME  ROLE  STATE   CREATED     EXPIRES',
    'ana   user  active  3 days ago  in 30 days',
  ]);
  const usage = [{ owner: 'ana', last_used: ago(1), bytes_kept: 1024 }] as unknown as [];
  const told = { usage, limits: { max_jobs: 9, max_upload_size: 2048 } };
  const limited = token('ana', { limits: { max_jobs: null, max_gpus: 1, max_kept: 1024 }, apps: ['a', 'b'] });
  expect(
    tokenTable([list(limited, told), list(token('ben', { limits: { max_gpus: null } }), told)], now),
  ).toEqual([
    'NAME  ROLE  STATE   CREATED     EXPIRES  LAST USE   KEPT     MAX JOBS    MAX GPUS  MAX KEPT  MAX UPLOAD        APPS',
    'ana   user  active  3 days ago  never    1 day ago  1.0 KiB  9 (server)  1         1.0 KiB   2.0 KiB (server)  a, b',
    'ben   user  active  3 days ago  never    never      0 B      4 (role)    none                2.0 KiB (server)  all',
  ]);
});

test('Limits, apps and times are parsed from what is typed', async () => {
  const flags = { ...limitFlags, apps: appsFlag(), expires: expiresFlag() };
  const read = async (...argv: readonly string[]) => (await Parser.parse([...argv], { flags })).flags;
  const given = await read('--max-jobs=3', '--max-gpus=NONE', '--max-kept=2GiB', '--max-upload=none');
  expect(limitsOf(given)).toEqual({
    ...{ max_jobs: 3, max_gpus: null, max_kept: 2 * 2 ** 30, max_upload: null },
  });
  expect(limitsOf(await read('--max-upload=1MB'))).toEqual({ max_upload: 1_000_000 });
  expect([(await read('--apps=a, b,a')).apps, (await read('--apps=ALL')).apps]).toEqual([['a', 'b'], null]);
  const { expires } = await read('--expires=2h');
  expect(Math.abs(Date.parse(expires ?? '') - Date.now() - 2 * 3_600_000)).toBeLessThan(60_000);
  expect((await read('--expires=Never')).expires).toBeNull();
  for (const [word, sentence] of [
    ['--expires=0s', "--expires takes a time such as 12h or 90d, or 'never', got '0s'"],
    ['--expires=soon', "--expires takes a time such as 12h or 90d, or 'never', got 'soon'"],
    ['--apps=a,,b', "--apps takes ids of apps, or 'all', got 'a,,b'"],
    ['--max-jobs=1234567890', "--max-jobs takes a whole number, or 'none', got '1234567890'"],
    ['--max-kept=much', "--max-kept takes a size such as 50GiB, or 'none', got 'much'"],
  ] as const)
    await expect(read(word)).rejects.toThrow(sentence);
});
