import { renameSync } from 'node:fs';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';
import type { TokenDocument } from '../../../src/access/index.js';
import { ServiceError } from '../../../src/contract/index.js';
import { Access, NamedTokens } from '../../../src/server/access/access.js';
import { ServerEvents } from '../../../src/server/events.js';
import { TestTokens } from '../../support/tokens.js';

const tokens = new TestTokens();
afterAll(() => tokens[Symbol.asyncDispose]());
const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
const opened = (token: string | null = null) =>
  Access.open({ token, tokensFile: tokens.file }, new ServerEvents(report), report);

/** Lets seconds pass for whoever does something every so often. */
function everySecond(): () => void {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  return () => vi.advanceTimersByTime(1000);
}

test('limits are those of the owner, each its own, and the admin has none', () => {
  tokens.create('lea');
  const limits = { max_jobs: 1, max_gpus: 2, max_kept: 3, max_upload: 4 };
  tokens.edit((before) => ({
    ...before,
    tokens: before.tokens.map((each) => (each.name === 'lea' ? { ...each, limits } : each)),
  }));
  const access = opened('of-the-environment');
  const most = (owner: string | null) => [
    access.mostJobs(owner),
    access.mostGpus(owner),
    access.mostKept(owner),
  ];
  expect([most('lea'), most('nobody'), most(null)]).toEqual([
    [1, 2, 3],
    [null, null, null],
    [null, null, null],
  ]);
  expect(access.identify(tokens.of('lea')).limits.max_upload).toEqual({
    most: 4,
    whose: "of the token 'lea'",
  });
  expect(access.identify('of-the-environment')).toMatchObject({ name: null, role: 'admin' });
});

test('owners are those whose tokens count or have expired, and the admin', () => {
  tokens.create('max', { expires: '2100-01-01T00:00:00.000Z' });
  tokens.create('gone');
  tokens.revoke('gone');
  const owners = opened().owners();
  expect([owners.includes(null), owners.includes('max'), owners.includes('gone')]).toEqual([
    true,
    true,
    false,
  ]);
});

test('a request that is over is not ended when its token is revoked; one under way is, once a second', () => {
  const pass = everySecond();
  const closing = new AbortController();
  const access = opened();
  const token = tokens.create('ida');
  const sender = access.identify(token);
  const ends: unknown[] = [];
  access.watch(token, sender, () => ends.push('over'))();
  access.watch(token, sender, (refusal) => ends.push(refusal?.detail));
  access.follow(closing.signal);
  tokens.revoke('ida');
  pass();
  expect(ends).toEqual(['Invalid token']);
  closing.abort();
});

test('a file is looked at for jobs that wait, until the server stops', () => {
  const pass = everySecond();
  const closing = new AbortController();
  const changes: string[] = [];
  const names = ({ tokens }: TokenDocument) => tokens.map(({ name }) => name).join();
  const named = new NamedTokens(tokens.file, report, (before, after) =>
    changes.push(names(after).slice(names(before).length)),
  );
  let looks = 0;
  // Also what has changed since it was read.
  tokens.create('tom');
  named.follow(closing.signal, () => {
    looks += 1;
  });
  expect(changes).toEqual([',tom']);
  pass();
  expect(looks).toBe(1);
  closing.abort();
  pass();
  expect(looks).toBe(1);
});

test('a token says who holds it, or why it counts no more', () => {
  tokens.create('eva', { role: 'admin', apps: ['probe'], expires: '2100-01-01T00:00:00.000Z' });
  const access = opened('of-the-environment');
  const all = [access, opened(null), new Access('x', null), new Access(null, null)];
  expect(all.map(({ isOpen }) => isOpen)).toEqual([false, false, false, true]);
  const eva = access.identify(tokens.of('eva'));
  expect([eva.name, eva.role, eva.apps]).toEqual(['eva', 'admin', ['probe']]);
  tokens.create('uwe');
  expect(access.identify(tokens.of('uwe'))).toMatchObject({ name: 'uwe', role: 'user', apps: null });
  expect(() => access.identifyAgain(tokens.of('uwe'), eva)).toThrow('Invalid token');
  expect(access.identifyAgain(tokens.of('eva'), eva)).toEqual(eva);
  expect(() => access.identify('wrong')).toThrow(new ServiceError('invalidToken', 'Invalid token'));
  const expired = '2020-01-01T00:00:00.000Z';
  tokens.edit((before) => ({
    ...before,
    tokens: before.tokens.map((each) => (each.name === 'uwe' ? { ...each, expires_at: expired } : each)),
  }));
  expect(() => access.identify(tokens.of('uwe'))).toThrow(
    `Invalid token: it expired at ${expired}; ask the admin of the server for a new one`,
  );
  expect(access.owners()).toEqual(expect.arrayContaining([null, 'eva', 'uwe']));
});

test("what an admin began ends without a refusal when the token is a user's, and goes on otherwise", () => {
  const pass = everySecond();
  const closing = new AbortController();
  const access = opened();
  for (const name of ['ole', 'ute']) tokens.create(name, { role: 'admin' });
  for (const name of ['pia', 'jan']) tokens.create(name);
  const ends: unknown[] = [];
  for (const name of ['ole', 'ute', 'pia', 'jan'])
    access.watch(tokens.of(name), access.identify(tokens.of(name)), (refusal) => ends.push([name, refusal]));
  access.follow(closing.signal);
  tokens.edit((before) => ({
    ...before,
    tokens: before.tokens.map((each) => ({
      ...each,
      ...(each.name === 'ole' && { role: 'user' as const }),
      ...(each.name === 'pia' && { role: 'admin' as const }),
    })),
  }));
  pass();
  expect(ends).toEqual([['ole', null]]);
  closing.abort();
});

test('a file that is away for a while is told once, and once more when it is there as it was', async () => {
  await using own = new TestTokens();
  own.create('kai');
  const told: unknown[] = [];
  const named = new NamedTokens(
    own.file,
    (problem) => told.push(problem),
    () => told.push('changed'),
    (count) => told.push(count),
  );
  const away = 'The tokens stay as they were read before, until their file is fixed';
  for (let time = 0; time < 2; time += 1) {
    // A disk that is mounted again has the same file.
    renameSync(own.directory, `${own.directory}-away`);
    for (let look = 0; look < 2; look += 1) named.reload();
    expect(named.entries.map(({ name }) => name)).toEqual(['kai']);
    renameSync(`${own.directory}-away`, own.directory);
    for (let look = 0; look < 2; look += 1) named.reload();
  }
  expect(told).toEqual([away, 1, away, 1]);
});
