import { describe, expect, test } from 'vitest';
import { ServiceError } from '../../src/contract/index.js';
import { FormParser } from '../../src/multipart/index.js';

/** Everything that a receiver is told of a form that comes in these pieces, and how it ended. */
async function told(...pieces: readonly string[]): Promise<unknown[]> {
  const events: unknown[] = [];
  const later = (event: unknown) =>
    new Promise<void>((resolve) => {
      setImmediate(() => {
        events.push(event);
        resolve();
      });
    });
  const parser = new FormParser('Xb', {
    onProgress: (bytes, parts) => events.push([bytes, parts]),
    begin: async (headers) => {
      await later({ ...headers });
      return {
        // Taking lasts longer than ending: whoever does not wait for it is told in another order.
        take: (piece) => new Promise(setImmediate).then(() => later(piece.toString('latin1'))),
        end: () => later('end'),
      };
    },
  });
  const ended = new Promise<void>((resolve) => {
    parser.once('finish', () => resolve());
    parser.once('error', (error) => {
      events.push(error);
      resolve();
    });
  });
  for (const piece of pieces) parser.write(Buffer.from(piece, 'latin1'));
  parser.end();
  await ended;
  return events;
}

/** What is told beside the progress. */
const withoutProgress = async (...pieces: readonly string[]) =>
  (await told(...pieces)).filter((event) => !Array.isArray(event));

const badRequest = (detail: string) => new ServiceError('badRequest', detail);
const refused = (detail: string) => badRequest(`The body is not a multipart form: ${detail}`);
const malformed = refused('a boundary, or a header of a part, is not well formed');

test('A receiver gets each part from its headers to its end, one after another, and the progress', async () => {
  const [first, second] = [
    '--Xb\r\nContent-Disposition:  form-data \r\nX-Y:\r\n\r\none\r\n',
    '--Xb\r\n\r\ntwo\r\n--Xb--\r\nwhat comes after it is nothing',
  ];
  expect(await told(first, second)).toEqual([
    [first.length, 0],
    { 'content-disposition': 'form-data ', 'x-y': '' },
    'one',
    [first.length + second.length, 1],
    'end',
    {},
    'two',
    'end',
  ]);
});

test('A destroyed parser accepts no more parts', async () => {
  let begun = 0;
  const parser = new FormParser('Xb', {
    onProgress: () => {},
    begin: async () => {
      begun += 1;
      parser.destroy();
      return { take: () => undefined, end: () => undefined };
    },
  });
  const closed = new Promise((resolve) => parser.once('close', resolve));
  parser.write('--Xb\r\nA: b\r\n\r\none\r\n--Xb\r\nA: b\r\n\r\ntwo\r\n--Xb--\r\n');
  await closed;
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toBe(1);
});

describe('the headers of a part', () => {
  const withHeaders = (headers: readonly string[]) =>
    `--Xb\r\n${headers.map((each) => `${each}\r\n`).join('')}\r\nx\r\n--Xb--`;
  const numbered = (count: number) => Array.from({ length: count }, (_, at) => `H${at}: ${at}`);

  test('A part has at most 32 headers', async () => {
    const [headers] = await withoutProgress(withHeaders(numbered(32)));
    expect(headers).toMatchObject({ h0: '0', h31: '31' });
    expect(await withoutProgress(withHeaders(numbered(33)))).toEqual([
      refused('a part has more than 32 headers'),
    ]);
  });

  test('The headers of a part have at most 16384 bytes in total, whether their end has arrived or not', async () => {
    // With the line break before them.
    const longest = `A: ${'b'.repeat((16 << 10) - 5)}`;
    expect(await withoutProgress(withHeaders([longest]))).toEqual([{ a: longest.slice(3) }, 'x', 'end']);
    const tooLong = refused('the headers of a part are longer than 16384 bytes');
    expect(await withoutProgress(withHeaders([`${longest}b`]))).toEqual([tooLong]);
    expect(await withoutProgress(`--Xb\r\n${longest}b`)).toEqual([tooLong]);
  });

  test.each(['no colon', ': no name', ' A: folded', 'A b: two words', 'A : b'])(
    'The headers of a part are refused if a line is not a header: %s',
    async (line) => {
      expect(await withoutProgress(withHeaders(['A: b', line]))).toEqual([malformed]);
    },
  );
});
