import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  withLimits,
  withNewSecret,
  withoutToken,
  withRoleLimits,
  withToken,
} from '../../../src/access/change-tokens.js';
import { limitsFor } from '../../../src/access/principal.js';
import {
  hashOf,
  newToken,
  noTokens,
  parseTokens,
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
