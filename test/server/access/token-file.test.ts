import { expect, test } from 'vitest';
import { withToken } from '../../../src/access/change-tokens.js';
import { newToken, noTokens, parseTokens } from '../../../src/access/token-file.js';

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
