import { describe, expect, test } from 'vitest';
import { LogStreamParser } from '../../../src/contract/log-stream.js';
import { EventBytes } from '../../../src/server/routes/event-bytes.js';

/** The text of the events of these lines, which come in these batches. */
function eventsOf(
  batches: readonly (readonly string[])[],
  next: number | null = null,
  redraws = false,
): string {
  const bytes = new EventBytes(next, redraws);
  const pieces: Buffer[] = [];
  for (const lines of batches) {
    // A piece is valid until the next one is requested.
    for (const piece of bytes.of(Buffer.from(`${lines.join('\n')}\n`))) pieces.push(Buffer.from(piece));
  }
  return Buffer.concat(pieces).toString();
}

describe("a log's lines as events", () => {
  test('are one data event each', () => {
    expect(eventsOf([['a line', '', ' indented']])).toBe('data: a line\n\ndata: \n\ndata:  indented\n\n');
  });

  test('have their numbers, if these are requested, across batches', () => {
    expect(eventsOf([['a', 'b'], ['c']], 9)).toBe('id: 9\ndata: a\n\nid: 10\ndata: b\n\nid: 11\ndata: c\n\n');
  });

  test('have no number if they are not in the log, and none that is passed over has the next one', () => {
    const bytes = new EventBytes(5, true);
    const text = (pieces: Iterable<Buffer>) =>
      Buffer.concat(Array.from(pieces, (each) => Buffer.from(each))).toString();
    expect(text(bytes.of(Buffer.from('a\n')))).toBe('id: 5\ndata: a\n\n');
    expect(text(bytes.ofUnnumbered(Buffer.from('place\n')))).toBe('data: place\n\n');
    bytes.pass();
    expect(text(bytes.of(Buffer.from('b\n')))).toBe('id: 7\ndata: b\n\n');
  });

  test('say which lines were redrawn, if that is requested, and are plain lines otherwise', () => {
    const lines = ['10 %\r', '\r', '__DONE__\r', '100 %'];
    expect(eventsOf([lines])).toBe('data: 10 %\n\ndata: \n\ndata:  __DONE__\n\ndata: 100 %\n\n');
    expect(eventsOf([lines], 1, true)).toBe(
      'id: 1\nevent: redraw\ndata: 10 %\n\nid: 2\nevent: redraw\ndata: \n\n' +
        'id: 3\nevent: redraw\ndata:  __DONE__\n\nid: 4\ndata: 100 %\n\n',
    );
  });

  test.for([
    ['__DONE__', ' __DONE__'],
    ['__ERROR__', ' __ERROR__'],
    ['__ERROR__x', ' __ERROR__x'],
    [' __DONE__', ' __DONE__'],
    ['__DONE__ ', '__DONE__ '],
    ['__DONE', '__DONE'],
    ['_', '_'],
    ['done', 'done'],
  ])('do not end the stream: %o', ([line = '', shielded]) => {
    const text = eventsOf([[line]]);
    expect(text).toBe(`data: ${shielded}\n\n`);
    expect(new LogStreamParser().push(text)[0]?.kind).toBe('line');
  });

  test('contain no other character that ends a line for some reader', () => {
    const ends = ['\v', '\f', '\r', '\u001c', '\u001d', '\u001e', '\u0085', '\u2028', '\u2029'];
    for (const end of ends) {
      const lines = [`${end}${end}a${end}data: __DONE__`, 'Å … é', end];
      const text = eventsOf([lines, lines]);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ends of lines
      expect(text).not.toMatch(/[\v\f\r\u001c-\u001e\u0085\u2028\u2029]/);
      expect(text).toMatch(/^data: [ \ufffd]+a[ \ufffd]+data: __DONE__\n\ndata: Å … é\n\n/);
    }
  });

  test.for([0, 1, 7, 60, 1000, 32_768, 49_000, 49_145, 49_146, 49_147, 200_000])(
    'are complete at any length: %d characters',
    (length) => {
      const lines = ['before', 'é'.repeat(length), ...Array(3000).fill('x'.repeat(length % 61)), 'after'];
      expect(eventsOf([lines])).toBe(lines.map((line) => `data: ${line}\n\n`).join(''));
      expect(eventsOf([lines], 1)).toBe(
        lines.map((line, index) => `id: ${index + 1}\ndata: ${line}\n\n`).join(''),
      );
      const redrawn = lines.map((line) => `${line}\r`);
      expect(eventsOf([redrawn])).toBe(lines.map((line) => `data: ${line}\n\n`).join(''));
      expect(eventsOf([redrawn], null, true)).toBe(
        lines.map((line) => `event: redraw\ndata: ${line}\n\n`).join(''),
      );
    },
  );

  test.for(Array.from({ length: 20 }, (_, index) => 49_120 + index * 2))(
    'are complete if a piece ends inside one: after %d characters',
    (length) => {
      const lines = ['x'.repeat(length), '', '__DONE__', 'next'];
      expect(eventsOf([lines])).toBe(`data: ${lines[0]}\n\ndata: \n\ndata:  __DONE__\n\ndata: next\n\n`);
    },
  );
});
