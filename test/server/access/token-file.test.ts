import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { withToken } from '../../../src/access/change-tokens.js';
import { newToken, noTokens, readTokens } from '../../../src/access/token-file.js';
import { lacks } from '../../support/needs.mjs';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';

const withNamed = (name: string) =>
  withToken(noTokens, { name, role: 'user', expires: null, token: newToken() });

/** Reads a document as a server reads its file of tokens. */
async function read(document: object) {
  await using directory = await temporary();
  await plant(directory.path, { 'tokens.json': JSON.stringify(document) });
  return readTokens(path.join(directory.path, 'tokens.json'));
}

const rule = 'up to 64 letters, digits and . _ @ -, beginning with a letter or a digit';

test.each(['ana', '7', 'Ana.Maria_2@example-1.org', 'x'.repeat(64)])(
  'A token may have the name %j',
  async (name) => {
    expect((await read(withNamed(name))).tokens).toMatchObject([{ name }]);
  },
);

test.each(['ana maria', '../ana', '', '-ana', '.ana', 'ana\n', 'an\u00e4', 'ana:x', 'x'.repeat(65)])(
  'No token has the name %j, neither from a command nor in a file that a person has written',
  async (name) => {
    expect(() => withNamed(name)).toThrow(`A token's name is ${rule}; got `);
    const document = withNamed('ana');
    const written = { ...document, tokens: [{ ...document.tokens[0], name }] };
    await expect(read(written)).rejects.toThrow(`tokens.0.name: must be ${rule}`);
  },
);

test.skipIf(lacks('root'))('A token file must belong to root or to the user of the server', async () => {
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

test('A token file that cannot be read in one piece is refused, and no descriptor stays open', async () => {
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
])('A token file with %s is refused', async (_, change, sentence) => {
  await expect(read({ ...noTokens, ...change })).rejects.toThrow(sentence);
});

test('A token file may contain two revoked tokens without hashes, and limits that are empty or null', async () => {
  const revoked = { ...withNamed('ana').tokens[0], hash: null, revoked_at: time };
  const document = {
    ...noTokens,
    roles: { user: { max_jobs: 0 }, admin: { max_gpus: null } },
    tokens: [revoked, { ...revoked, name: 'bob' }],
  };
  expect(await read(document)).toMatchObject(document);
});
