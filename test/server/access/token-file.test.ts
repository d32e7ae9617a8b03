import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  editTokens,
  withApps,
  withLimits,
  withNewSecret,
  withoutToken,
  withRoleLimits,
  withToken,
} from '../../../src/access/change-tokens.js';
import { limitsFor, mayReach, noLimits, ownerInWords } from '../../../src/access/principal.js';
import {
  hashOf,
  newToken,
  noTokens,
  parseTokens,
  placeOf,
  readTokens,
  stateOf,
} from '../../../src/access/token-file.js';
import { lacks } from '../../support/needs.mjs';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';

const withNamed = (name: string) =>
  withToken(noTokens, { name, role: 'user', expires: null, token: newToken() });

const rule = 'up to 64 letters, digits and . _ @ -, beginning with a letter or a digit';

test.each(['ana', '7', 'Ana.Maria_2@example-1.org', 'x'.repeat(64)])(
  'a token may have the name %j',
  (name) => {
    expect(parseTokens(JSON.stringify(withNamed(name))).tokens).toMatchObject([{ name }]);
  },
);

test.each(['ana maria', '../ana', '', '-ana', '.ana', 'ana\n', 'an\u00e4', 'ana:x', 'x'.repeat(65)])(
  'no token has the name %j, neither from a command nor in a file that a person has written',
  (name) => {
    expect(() => withNamed(name)).toThrow(`A token's name is ${rule}; got `);
    const document = withNamed('ana');
    const written = JSON.stringify({ ...document, tokens: [{ ...document.tokens[0], name }] });
    expect(() => parseTokens(written)).toThrow(`tokens.0.name: must be ${rule}`);
  },
);

test.skipIf(lacks('root'))('a file of tokens belongs to root or to the user of the server', async () => {
  await using directory = await temporary();
  await plant(directory.path, { 'tokens.json': JSON.stringify(noTokens) });
  const file = path.join(directory.path, 'tokens.json');
  const asUser = vi.spyOn(process, 'getuid').mockReturnValue(4321);
  onTestFinished(() => asUser.mockRestore());
  expect(readTokens(file)).toEqual(noTokens);
  chownSync(file, 4321, 0);
  expect(readTokens(file)).toEqual(noTokens);
  asUser.mockReturnValue(1234);
  expect(() => readTokens(file)).toThrow('belongs to another user (uid 4321), who could change it');
  // Whoever has the directory could replace the file.
  chownSync(file, 0, 0);
  chownSync(directory.path, 4321, 0);
  expect(() => readTokens(file)).toThrow(
    `The tokens in '${file}' cannot be used: '${directory.path}' belongs to another user (uid 4321), who could change it; ` +
      'give it to root or to the user of the server',
  );
});

test('a file of tokens that cannot be read whole at once is refused, and none stays open', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, 'tokens.json');
  const [first, second] = [withNamed('ana'), withNamed('bob')].map(({ tokens }) => tokens[0]);
  const texts = {
    'it is empty': ' \n',
    'it is not JSON': '{"tokens',
    'two tokens have one hash': JSON.stringify({
      version: 1,
      tokens: [first, { ...second, hash: first?.hash }],
    }),
  };
  const refusal = (why: string) => `The tokens in '${file}' cannot be used: ${why}`;
  for (const [why, text] of Object.entries(texts)) {
    writeFileSync(file, text, { mode: 0o600 });
    expect(() => readTokens(file)).toThrow(refusal(why));
  }
  truncateSync(file, (16 << 20) + 1);
  expect(() => readTokens(file)).toThrow(refusal('it is longer than 16 MiB'));
  rmSync(file);
  mkdirSync(file);
  expect(() => readTokens(file)).toThrow(refusal('it is not a regular file'));
  rmSync(file, { recursive: true });
  execFileSync('mkfifo', [file]);
  expect(() => readTokens(file)).toThrow(refusal('it is not a regular file'));
  expect(openBelow(directory.path)).toEqual([]);
});

const time = '2026-01-01T00:00:00.000Z';
/** A document with one token that has been changed like this. */
const changed = (change: object) => {
  const document = withNamed('ana');
  return { ...document, tokens: document.tokens.map((entry) => ({ ...entry, ...change })) };
};

test('a token is over at its time, and not before', () => {
  const [entry] = changed({ expires_at: time }).tokens;
  if (!entry) throw new Error('There is no token');
  const states = [-1, 0, 1].map((more) => stateOf(entry, Date.parse(time) + more));
  expect(states).toEqual(['active', 'expired', 'expired']);
  expect(stateOf({ ...entry, hash: null }, 0)).toBe('revoked');
  expect(stateOf({ ...entry, expires_at: null, revoked_at: time })).toBe('revoked');
});

test('a token that is revoked again was revoked the first time, and its name stays its own', () => {
  const once = withoutToken(changed({ revoked_at: time }), 'ANA');
  expect(withoutToken(once, 'ana').tokens).toMatchObject([{ hash: null, revoked_at: time }]);
  expect(() => withToken(once, { name: 'Ana', role: 'user', expires: null, token: 'x' })).toThrow(
    "The token 'ana' was revoked, and its jobs keep its name; 'token rotate ana' gives the same person a new one",
  );
});

test('a new secret keeps the time of the token, unless it has another', () => {
  const document = changed({ expires_at: '2100-01-01T00:00:00.000Z', hash: null, revoked_at: time });
  const [rotated] = withNewSecret(document, 'ana', 'x', undefined).tokens;
  expect(rotated).toMatchObject({
    hash: hashOf('x'),
    expires_at: '2100-01-01T00:00:00.000Z',
    revoked_at: null,
  });
  expect(withNewSecret(document, 'ana', 'x', null).tokens).toMatchObject([{ expires_at: null }]);
});

test('limits that are not named stay as they are: of a token, of a role and of other roles', () => {
  const given = withLimits(withLimits(withNamed('ana'), 'ana', { max_jobs: 2 }), 'ana', { max_kept: null });
  const ofRoles = withRoleLimits(withRoleLimits(given, 'admin', { max_gpus: 8 }), 'user', { max_jobs: 5 });
  const document = withRoleLimits(ofRoles, 'user', { max_kept: 10, max_upload: 7 });
  expect(document.roles).toEqual({
    admin: { max_gpus: 8 },
    user: { max_jobs: 5, max_kept: 10, max_upload: 7 },
  });
  const [entry] = document.tokens;
  if (!entry) throw new Error('There is no token');
  expect(limitsFor(entry, document.roles)).toEqual({
    max_jobs: { most: 2, whose: "of the token 'ana'" },
    max_gpus: null,
    max_kept: null,
    max_upload: { most: 7, whose: "of the role 'user'" },
  });
});

test('a new token is in the file with its hash alone, beside the others', () => {
  const begun = Date.now();
  const one = withToken(noTokens, { name: 'Ana', role: 'user', expires: null, token: 'secret' });
  const both = withToken(one, {
    name: 'bob',
    role: 'admin',
    expires: '2100-01-01T00:00:00.000Z',
    token: 'other',
    limits: { max_jobs: 0, max_kept: null },
    apps: ['a', 'b'],
  });
  const made = { created_at: expect.any(String), revoked_at: null };
  expect(both).toEqual({
    version: 1,
    roles: {},
    tokens: [
      { ...made, name: 'Ana', role: 'user', hash: hashOf('secret'), expires_at: null, limits: {} },
      {
        ...made,
        name: 'bob',
        role: 'admin',
        hash: hashOf('other'),
        expires_at: '2100-01-01T00:00:00.000Z',
        limits: { max_jobs: 0, max_kept: null },
        apps: ['a', 'b'],
      },
    ],
  });
  expect(Date.parse(both.tokens[1]?.created_at ?? '')).toBeGreaterThanOrEqual(begun);
  expect(parseTokens(JSON.stringify(both))).toEqual(both);
  expect(['ANA', 'ana', 'Bob', 'eve'].map((name) => placeOf(both, name))).toEqual([0, 0, 1, -1]);
  expect(() => withToken(both, { name: 'ANA', role: 'user', expires: null, token: 'x' })).toThrow(
    "The token 'Ana' is there already; 'token rotate Ana' gives the same person a new one",
  );
  expect(hashOf('secret')).toBe('sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b');
  expect(newToken()).toMatch(/^ra_[\w-]{43}$/);
});

test('a token that there is not is changed by nothing, and says what shows those there are', () => {
  const document = withNamed('ana');
  const sentence = "There is no token named 'bob'; 'token list' shows those there are";
  for (const change of [
    () => withoutToken(document, 'bob'),
    () => withLimits(document, 'bob', {}),
    () => withApps(document, 'bob', null),
    () => withNewSecret(document, 'bob', 'x', null),
  ])
    expect(change).toThrow(sentence);
});

test('an expired token gets no new secret without a new time', () => {
  const document = changed({ expires_at: time });
  expect(() => withNewSecret(document, 'ANA', 'x', undefined)).toThrow(
    `The token 'ana' expired at ${time}; say how long the new one is valid: --expires 90d, or --expires never`,
  );
  expect(() => withNewSecret(document, 'ana', 'x', time)).toThrow('expired at');
  expect(withNewSecret(document, 'ana', 'x', null).tokens).toMatchObject([{ expires_at: null }]);
});

test('apps of a token are set, and all are its again, which changes no other token', () => {
  const two = withToken(withNamed('ana'), {
    name: 'bob',
    role: 'user',
    expires: null,
    token: 'x',
    apps: ['c'],
  });
  const some = withApps(two, 'ANA', ['a', 'b']);
  expect(some.tokens.map(({ apps }) => apps)).toEqual([['a', 'b'], ['c']]);
  const all = withApps(some, 'ana', null);
  expect(all.tokens.map((entry) => ['apps' in entry, entry.apps])).toEqual([
    [false, undefined],
    [true, ['c']],
  ]);
});

test('what belongs to somebody is reached by its owner and by admins', () => {
  const as = (name: string | null, role: 'user' | 'admin') => ({ name, role, limits: noLimits, apps: null });
  expect([
    mayReach(as('ana', 'user'), 'ana'),
    mayReach(as('ana', 'user'), 'bob'),
    mayReach(as('ana', 'user'), null),
    mayReach(as('ana', 'admin'), 'bob'),
    mayReach(as(null, 'admin'), 'bob'),
  ]).toEqual([true, false, false, true, true]);
  expect([ownerInWords(null), ownerInWords('ana')]).toEqual(['the admin', "token 'ana'"]);
});

test.each<[string, object, string]>([
  ['another version', { version: 2 }, 'version: '],
  ['a word that nobody knows', { colour: 'red' }, 'the file: '],
  ['an unknown role', { tokens: [{ ...withNamed('ana').tokens[0], role: 'root' }] }, 'tokens.0.role: '],
  ['a negative limit', { roles: { user: { max_jobs: -1 } } }, 'roles.user.max_jobs: '],
  ['no list of apps', { tokens: [{ ...withNamed('ana').tokens[0], apps: [] }] }, 'tokens.0.apps: '],
  [
    'a token in place of its hash',
    { tokens: [{ ...withNamed('ana').tokens[0], hash: 'ra_x' }] },
    'tokens.0.hash: must be sha256: and 64 hexadecimal digits',
  ],
  [
    'two names that differ in case',
    { tokens: [withNamed('ana').tokens[0], withNamed('ANA').tokens[0]] },
    "there are two tokens named 'ana'",
  ],
])('a file of tokens with %s is refused', (_, change, sentence) => {
  expect(() => parseTokens(JSON.stringify({ ...noTokens, ...change }))).toThrow(sentence);
});

test('two revoked tokens without hashes are no fault, and limits may be nothing or none', () => {
  const revoked = { ...withNamed('ana').tokens[0], hash: null, revoked_at: time };
  const document = {
    ...noTokens,
    roles: { user: { max_jobs: 0 }, admin: { max_gpus: null } },
    tokens: [revoked, { ...revoked, name: 'bob' }],
  };
  expect(parseTokens(JSON.stringify(document))).toMatchObject(document);
});

test('who can write a file of tokens, or replace it, is told how to mend that', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, 'tokens.json');
  await plant(directory.path, { 'tokens.json': JSON.stringify(noTokens) });
  const refusal = (place: string) =>
    `The tokens in '${file}' cannot be used: '${place}' can be written by others; run 'chmod go-w ${place}'`;
  for (const mode of [0o620, 0o602]) {
    chmodSync(file, mode);
    expect(() => readTokens(file)).toThrow(refusal(file));
  }
  chmodSync(file, 0o644);
  chmodSync(directory.path, 0o770);
  expect(() => readTokens(file)).toThrow(refusal(directory.path));
  chmodSync(directory.path, 0o1777);
  expect(readTokens(file)).toEqual(noTokens);
});

test('a file of tokens is made for its admin alone, and keeps the mode that it gets', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, 'tokens.json');
  const add = (name: string) =>
    editTokens(file, (before) => withToken(before, { name, role: 'user', expires: null, token: name }));
  const modeOf = () => statSync(file).mode & 0o777;
  add('ana');
  expect(modeOf()).toBe(0o600);
  chmodSync(file, 0o640);
  add('bob');
  expect([modeOf(), readTokens(file).tokens.map(({ name }) => name)]).toEqual([0o640, ['ana', 'bob']]);
  expect(() => add('bob')).toThrow("The token 'bob' is there already");
  const missing = path.join(directory.path, 'missing', 'tokens.json');
  expect(() => editTokens(missing, (before) => before)).toThrow(
    `The tokens in '${missing}' cannot be changed: no such file or directory (ENOENT); it needs a directory that you may write to`,
  );
  // Nothing can be made where a link leads nowhere.
  const link = path.join(directory.path, 'link');
  symlinkSync('nowhere', link);
  expect(() => editTokens(link, (before) => before)).toThrow(
    `'${link}' was replaced again and again; try again`,
  );
});
