import { chownSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { withToken } from '../../../src/access/change-tokens.js';
import { newToken, noTokens, parseTokens, readTokens } from '../../../src/access/token-file.js';
import { lacks } from '../../support/needs.mjs';
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
});
