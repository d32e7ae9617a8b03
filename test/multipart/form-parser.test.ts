import { describe, expect, test } from 'vitest';
import { FormParser } from '../../src/multipart/index.js';

const boundary = 'Xb';

/** The contents that a parser finds in a form that comes in these pieces. */
async function contents(pieces: readonly Buffer[]): Promise<{ parts: string[]; taken: number }> {
  const parts: string[] = [];
  let taken = 0;
  const parser = new FormParser(boundary, {
    onProgress: () => {},
    begin: async () => {
      const content: string[] = [];
      return {
        take: (piece) => {
          taken += 1;
          content.push(piece.toString('latin1'));
        },
        end: () => {
          parts.push(content.join(''));
        },
      };
    },
  });
  const ended = new Promise<void>((resolve, reject) => {
    parser.once('finish', resolve).once('error', reject);
  });
  for (const piece of pieces) parser.write(piece);
  parser.end();
  await ended;
  return { parts, taken };
}

const formWith = (parts: readonly (readonly [headers: string, content: string])[]): Buffer =>
  Buffer.from(
    [
      ...parts.map(([headers, content]) => `--${boundary}\r\n${headers}\r\n\r\n${content}\r\n`),
      `--${boundary}--\r\n`,
    ].join(''),
    'latin1',
  );

const form = (parts: readonly string[]): Buffer => formWith(parts.map((part) => ['A: b\r\nC: d', part]));

/** The headers of a part that says how long its content is. */
const sized = (size: number | string): string => `A: b\r\nRemote-App-Size: ${size}`;

/** A body in pieces of random lengths. */
function split(body: Buffer, most: number, next: (below: number) => number): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const to = at + 1 + next(most);
    pieces.push(body.subarray(at, to));
    at = to;
  }
  return pieces;
}

/** The same numbers in each run (Park and Miller). */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48_271) % 0x7fffffff;
    return state % below;
  };
}

const lookalikes = [
  '\r',
  '\n',
  '\r\n',
  '-',
  '--',
  '\r\n-',
  '\r\n--',
  '\r\n--X',
  '\r\n--Xb',
  'X',
  'b',
  'Xb',
  '\0',
];

/** A content with bytes that look like the end of a part. */
function trickyContent(next: (below: number) => number): string {
  for (;;) {
    const content = Array.from({ length: next(12) }, () => lookalikes[next(lookalikes.length)]).join('');
    const ends = [`${content}\r\n--Xb\r\n`, `${content}\r\n--Xb--`].map((text) =>
      text.search(/\r\n--Xb(\r\n|--)/),
    );
    if (ends.every((end) => end === content.length)) return content;
  }
}

describe('the contents of parts', () => {
  test('The contents of parts are found exactly, whatever they contain and wherever they are split', async () => {
    const next = numbers(7);
    for (let round = 0; round < 1500; round += 1) {
      const parts = Array.from({ length: 1 + next(3) }, () => trickyContent(next));
      const most = 1 + next(40);
      const pieces = split(form(parts), most, next);
      expect((await contents(pieces)).parts, JSON.stringify([parts, most])).toEqual(parts);
    }
  });

  test('The contents of parts are as long as their parts state, even if they contain a boundary', async () => {
    const next = numbers(11);
    for (let round = 0; round < 1500; round += 1) {
      const parts = Array.from({ length: 1 + next(3) }, () => {
        const isStated = next(3) > 0;
        const content = trickyContent(next) + (isStated ? ['', '\r\n--Xb\r\n', '\r\n--Xb--'][next(3)] : '');
        return [isStated ? sized(content.length) : 'A: b', content] as const;
      });
      const most = 1 + next(40);
      const pieces = split(formWith(parts), most, next);
      const expected = parts.map(([, content]) => content);
      expect((await contents(pieces)).parts, JSON.stringify([parts, most])).toEqual(expected);
    }
  });

  test('Contents of another size than their part states are refused, wherever they are split', async () => {
    const next = numbers(13);
    for (let round = 0; round < 500; round += 1) {
      const content = trickyContent(next);
      const size = next(content.length + 20);
      if (size === content.length) continue;
      const body = formWith([
        [sized(size), content],
        ['A: b', 'next'],
      ]);
      const pieces = split(body, 1 + next(60), next);
      await expect(contents(pieces), JSON.stringify([content, size])).rejects.toThrow(`the ${size} bytes`);
    }
  });

  test.for(['', '-1', '1e3', '3 bytes', '0x3', '1234567890123456'])(
    'The end of a part is searched for if its size is not a number: %s',
    async (size) => {
      const body = formWith([[sized(size), 'content']]);
      expect((await contents([body])).parts).toEqual(['content']);
    },
  );

  test('The contents of parts are passed on in large pieces, including carriage returns', async () => {
    const part = '\r'.repeat(100_000) + '\r\n--XbY'.repeat(10_000);
    const body = form([part]);
    const { parts, taken } = await contents([body.subarray(0, 50_000), body.subarray(50_000)]);
    expect(parts.map((each) => each === part)).toEqual([true]);
    expect(taken).toBeLessThan(30);
  });

  test('The contents of parts require a complete last boundary', async () => {
    const body = form(['a']);
    expect(body.toString().endsWith('--\r\n')).toBe(true);
    expect((await contents([body.subarray(0, -2)])).parts).toEqual(['a']);
    const next = Buffer.concat([body.subarray(0, -4), Buffer.from('\r\n')]);
    for (const cut of [next, ...[3, 4, 5, 9].map((length) => body.subarray(0, -length))])
      await expect(contents([cut])).rejects.toThrow('The body ended before the form was complete');
  });

  test('The contents of parts are held back until earlier contents are consumed', async () => {
    let free = () => {};
    const taken: string[] = [];
    const parser = new FormParser(boundary, {
      onProgress: () => {},
      begin: async () => ({
        take: (piece) => {
          taken.push(String(piece));
          return new Promise<void>((resolve) => {
            free = resolve;
          });
        },
        end: () => undefined,
      }),
    });
    const [first, second] = [form(['one']).subarray(0, -10), Buffer.from('two')];
    let isDone = false;
    const firstTaken = new Promise<void>((resolve) => parser.write(first, () => resolve())).then(() => {
      isDone = true;
    });
    parser.write(second);
    while (taken.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect([taken, isDone]).toEqual([['one'], false]);
    free();
    await firstTaken;
    while (taken.length === 1) await new Promise((resolve) => setImmediate(resolve));
    expect(taken).toEqual(['one', 'two']);
    parser.destroy();
  });
});
