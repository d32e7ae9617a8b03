import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { withApps, withLimits, withoutToken, withToken } from '../../../src/access/change-tokens.js';
import { noTokens } from '../../../src/access/token-file.js';
import { AuditLog, lookAtAuditLog, openAuditLog } from '../../../src/server/audit/audit-log.js';
import { type EndedJob, ServerEvents } from '../../../src/server/events.js';
import { openBelow } from '../../support/open-files.js';
import { temporary } from '../../support/temporary.js';

let directory: Awaited<ReturnType<typeof temporary>>;
let file = '';
beforeEach(async () => {
  directory = await temporary();
  file = path.join(directory.path, 'audit.log');
});
afterEach(() => directory[Symbol.asyncDispose]());

/** The lines of a log, without their times. */
const linesOf = (name = file) =>
  readFileSync(name, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { time, ...facts } = JSON.parse(line) as Record<string, unknown>;
      expect(Date.now() - Date.parse(String(time))).toBeLessThan(60_000);
      return facts;
    });

const with2 = (name: string, token: string) =>
  withToken(noTokens, { name, role: 'user', expires: null, token });

test('a line has all that is known of an end, an upload and a refusal, and nothing that names a file', () => {
  const events = new ServerEvents(expect.fail);
  const log = openAuditLog(file, events, expect.fail);
  const end = { id: '0123456789ab', app: 'tissue', operation: 'infer', owner: 'ana', state: 'error' };
  const more = { error: 'meier.nii', isRefused: true, gpus: [1], seconds: 2.5, bytes: null };
  events.tell('ended', { ...end, ...more } as unknown as EndedJob);
  events.tell('uploaded', { owner: null, bytes: 8 });
  const refusal = {
    owner: 'ana',
    role: 'user',
    from: '192.0.2.1',
    method: 'GET',
    route: 'job',
    status: 404,
    error: 'unknownJob',
  } as const;
  events.tell('refused', { ...refusal, path: '/jobs/meier', detail: 'meier.nii' });
  log?.close();
  events.tell('uploaded', { owner: null, bytes: 9 });
  expect(linesOf()).toEqual([
    {
      event: 'end',
      owner: 'ana',
      job_id: '0123456789ab',
      app: 'tissue',
      operation: 'infer',
      status: 'error',
      refused: true,
      gpus: [1],
      seconds: 2.5,
      bytes: null,
    },
    { event: 'upload', owner: null, bytes: 8 },
    { event: 'refusal', ...refusal },
  ]);
  expect(openBelow(directory.path)).toEqual([]);
});

test('a change of the tokens has a line for each that changed, and none for the others', () => {
  const events = new ServerEvents(expect.fail);
  const log = openAuditLog(file, events, expect.fail);
  const ana = with2('ana', 'x');
  const both = { ...ana, tokens: [...ana.tokens, ...with2('bob', 'y').tokens] };
  const limited = withApps(withLimits(both, 'bob', { max_jobs: 1 }), 'bob', ['tissue']);
  const roles = { ...limited, roles: { user: { max_gpus: 2 } } };
  const revoked = withoutToken(roles, 'bob');
  const steps = [noTokens, ana, both, limited, roles, revoked, { ...roles, tokens: [] }];
  for (const [index, after] of steps.slice(1).entries())
    events.tell('tokens', { before: steps[index] ?? noTokens, after });
  log?.close();
  const token = { event: 'token', role: 'user', expires_at: null, revoked_at: null, limits: {}, apps: null };
  const gone = { ...token, change: 'removed', role: null, limits: null };
  const of = ({ event: _, ...allowed }: Record<string, unknown>) => allowed;
  const bob = { ...token, limits: { max_jobs: 1 }, apps: ['tissue'] };
  const revoked_at = revoked.tokens[1]?.revoked_at;
  expect(linesOf()).toEqual(
    [
      { ...token, change: 'created', token: 'ana', was: null },
      { ...token, change: 'created', token: 'bob', was: null },
      { ...bob, change: 'changed', token: 'bob', was: of(token) },
      {
        event: 'token',
        change: 'role',
        token: null,
        role: 'user',
        limits: { max_gpus: 2 },
        was: { limits: {} },
      },
      { ...bob, change: 'revoked', token: 'bob', revoked_at, was: of(bob) },
      { ...gone, token: 'ana', was: of(token) },
      { ...gone, token: 'bob', was: of({ ...bob, revoked_at }) },
    ].map((line) => expect.objectContaining(line)),
  );
});

test('a log that is opened again leaves one descriptor open; where that fails, the old one is written on', () => {
  const told: string[] = [];
  const log = new AuditLog(file, (problem) => told.push(problem));
  renameSync(file, `${file}.1`);
  log.reopen();
  expect(openBelow(directory.path)).toEqual(['audit.log']);
  log.write({ event: 'drain', draining: true });
  renameSync(file, `${file}.2`);
  mkdirSync(file);
  log.reopen();
  log.write({ event: 'drain', draining: false });
  log.close();
  log.reopen();
  log.write({ event: 'drain', draining: true });
  expect(linesOf(`${file}.2`)).toEqual([
    { event: 'drain', draining: true },
    { event: 'drain', draining: false },
  ]);
  expect(told).toEqual(['The audit log could not be opened again; the file that is open is written on']);
  expect(openBelow(directory.path)).toEqual([]);
});

test('a check of the log makes none, follows a link to where it would be, and leaves nothing open', () => {
  const problem = (why: string) => `The audit log '${file}' cannot be written: ${why}`;
  lookAtAuditLog(file);
  expect(existsSync(file)).toBe(false);
  symlinkSync('logs/audit.log', file);
  expect(() => lookAtAuditLog(file)).toThrow(problem('no such file or directory'));
  mkdirSync(path.join(directory.path, 'logs'));
  lookAtAuditLog(file);
  expect(existsSync(file)).toBe(false);
  rmSync(file);
  mkdirSync(file);
  const directoryFault = problem('illegal operation on a directory (EISDIR)');
  expect(() => lookAtAuditLog(file)).toThrow(directoryFault);
  expect(() => openAuditLog(file, new ServerEvents(expect.fail), expect.fail)).toThrow(directoryFault);
  rmSync(file, { recursive: true });
  new AuditLog(file, expect.fail).close();
  chmodSync(file, 0o600);
  lookAtAuditLog(file);
  expect(openBelow(directory.path)).toEqual([]);
  expect(openAuditLog(null, new ServerEvents(expect.fail), expect.fail)).toBeNull();
});
