import { expect, test } from 'vitest';
import { answerError, connectionError, HubError } from '../../../src/server/hub/hub-error.js';

const asked = {
  endpoint: 'https://hub.example',
  repository: 'owner/name',
  revision: 'v9',
  hasToken: false,
};
const answer = (status: number, headers: Record<string, string> = {}) =>
  new Response(null, { status, headers });

test.for([
  [404, 'RevisionNotFound', "Repository 'owner/name' has no revision 'v9' at https://hub.example", false],
  [
    403,
    'GatedRepo',
    "Repository 'owner/name' is gated at https://hub.example: if it is private or gated, set HF_TOKEN to a token that may read it",
    false,
  ],
  [404, 'EntryNotFound', "A file of 'owner/name' is listed at https://hub.example, but is not there", false],
  ...[401, 403, 404].map(
    (status) =>
      [
        status,
        '',
        `https://hub.example shows this server no repository 'owner/name' (${status}): if it is private or gated, set HF_TOKEN to a token that may read it`,
        false,
      ] as const,
  ),
  [429, '', 'https://hub.example was asked too often (429) and answers again later', false],
  [400, '', "https://hub.example answered 400 when it was asked for 'owner/name'", false],
  [500, '', "https://hub.example answered 500 when it was asked for 'owner/name'", true],
  [503, '', "https://hub.example answered 503 when it was asked for 'owner/name'", true],
] as const)('the answer %i %s becomes a message that explains it', ([status, code, message, isPassing]) => {
  const error = answerError(answer(status, code === '' ? {} : { 'x-error-code': code }), asked);
  expect([error.message, error.isPassing, error.retryAfter]).toEqual([
    message,
    isPassing,
    status === 429 ? 60 : 0,
  ]);
});

test('a token without access and a missing token have different messages', () => {
  for (const code of ['GatedRepo', '']) {
    const { message } = answerError(answer(403, { 'x-error-code': code }), { ...asked, hasToken: true });
    expect(message).toMatch(
      /: the token of this server may not read it: accept its terms at https:\/\/hub\.example, or use another token$/,
    );
  }
});

test.for([
  ['30', 429, 30],
  ['99999', 429, 3600],
  ['-5', 429, 60],
  ['soon', 429, 60],
  ['30', 503, 30],
  ['30', 404, 0],
] as const)('a Retry-After of %s with status %i means %i seconds', ([given, status, seconds]) => {
  expect(answerError(answer(status, { 'retry-after': given }), asked).retryAfter).toBe(seconds);
});

test('the error for a request without an answer names the cause, and is retried', () => {
  const timeout = Object.assign(new Error('aborted'), { name: 'TimeoutError' });
  const refused = new TypeError('fetch failed', {
    cause: Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
  });
  const told = [timeout, refused, new Error('odd')].map((cause) =>
    connectionError(cause, 'https://hub.example'),
  );
  expect(told.map(({ message }) => message)).toEqual([
    'https://hub.example took too long to answer',
    'https://hub.example was not reached (ECONNREFUSED)',
    'https://hub.example was not reached (odd)',
  ]);
  expect(told.every(({ isPassing }) => isPassing)).toBe(true);
  const own = new HubError('It is odd');
  expect(connectionError(own, 'https://hub.example')).toBe(own);
});
