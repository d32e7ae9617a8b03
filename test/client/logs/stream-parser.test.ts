import { describe, expect, test } from 'vitest';
import { type LogEvent, LogStreamParser, maxLine } from '../../../src/client/logs/stream-parser.js';

const line = (text: string, id: number | null = null, isRedraw = false): LogEvent => ({
  kind: 'line',
  line: text,
  id,
  isRedraw,
});

const stream = [
  'data: [remote-app] Remote job 0123456789ab accepted: infer on probe\n\n',
  ': keepalive\n\n',
  'data: \n\n',
  'id: 3\ndata:  __DONE__\n\n',
  'id: 4\ndata: Schädel 🧠\n\n',
  'data: __ERROR__ Subprocess failed (exit code 1)\n\n',
].join('');

const events: LogEvent[] = [
  line('[remote-app] Remote job 0123456789ab accepted: infer on probe'),
  line(''),
  line(' __DONE__', 3),
  line('Schädel 🧠', 4),
  { kind: 'error', message: 'Subprocess failed (exit code 1)' },
];

describe("a log stream's parser", () => {
  test('The parser of a log stream reads the same events, wherever the text is split', () => {
    for (let size = 1; size <= stream.length; size += 1) {
      const parser = new LogStreamParser();
      const read: LogEvent[] = [];
      for (let start = 0; start < stream.length; start += size) {
        read.push(...parser.push(stream.slice(start, start + size)));
      }
      expect(read).toEqual(events);
    }
  });

  test('The parser of a log stream does not report an incomplete event at the end of the text', () => {
    const parser = new LogStreamParser();
    expect(parser.push('data: whole\n\ndata: half')).toEqual([line('whole')]);
    expect(parser.push('\n')).toEqual([]);
  });

  test('The parser of a log stream accepts Windows line ends, and fields without a space', () => {
    expect(new LogStreamParser().push('id:7\r\ndata:x\r\n\r\ndata:__DONE__\n\n')).toEqual([
      line('x', 7),
      { kind: 'done' },
    ]);
  });

  test('The parser of a log stream knows a redraw by its field, and forgets it before the next event', () => {
    const text =
      'id: 1\nevent: redraw\ndata: 10 %\n\ndata: a\n\nevent:redraw\ndata: b\n\nevent: x\ndata: c\n\n';
    expect(new LogStreamParser().push(text)).toEqual([
      line('10 %', 1, true),
      line('a'),
      line('b', null, true),
      line('c'),
    ]);
  });

  test('The parser of a log stream forgets the id of an event before the next', () => {
    expect(new LogStreamParser().push('id: 1\ndata: a\n\ndata: b\n\nid: x\ndata: c\n\n')).toEqual([
      line('a', 1),
      line('b'),
      line('c'),
    ]);
  });

  test('The parser of a log stream accepts only line numbers as ids', () => {
    for (const id of ['-1', '1e3', '1.5', '0x10', '9'.repeat(16), '9'.repeat(100_000), '', ' 7']) {
      expect(new LogStreamParser().push(`id: ${id}\ndata: a\n\n`)).toEqual([line('a')]);
    }
  });

  test('The parser of a log stream cuts a line that is too long, says so, and continues after it', () => {
    const parser = new LogStreamParser();
    const events = [
      ...parser.push(`id: 1\ndata: ${'a'.repeat(3 * maxLine)}`),
      ...parser.push('bc\n\ndata: next\n\n'),
    ];
    const long = `data: ${'a'.repeat(2 * maxLine)}\n\n`;
    const whole = [...parser.push(long), ...parser.push(`data: x\n\n${long}`).slice(1)];
    const cut = `${'a'.repeat(maxLine - 6)} [remote-app: the rest of this line is left out: it is longer than 1048576 characters]`;
    expect(whole.map((event) => event.kind === 'line' && event.line === cut)).toEqual([true, true]);
    const [first] = events;
    expect(first?.kind === 'line' && [first.line === cut, first.id]).toEqual([true, 1]);
    expect(events[1]).toEqual(line('next'));
    expect(parser.push('data: last\n\n')).toEqual([line('last')]);
    // Nothing more comes of it before its end.
    parser.push(long.trimEnd());
    const [alone] = parser.push('\n\n');
    expect(alone?.kind === 'line' && alone.line === cut).toBe(true);
  });

  test('The parser of a log stream does not cut a line of the greatest length, be it in one piece or in two', () => {
    const longest = `data: ${'a'.repeat(maxLine - 6)}`;
    const expected = [line('next'), line('a'.repeat(maxLine - 6)), line('next')];
    expect(new LogStreamParser().push(`data: next\n\n${longest}\n\ndata: next\n\n`)).toEqual(expected);
    const parser = new LogStreamParser();
    const pieces = ['data: next\n\n', longest.slice(0, 99), longest.slice(99), '\n\ndata: next\n\n'];
    expect(pieces.flatMap((piece) => parser.push(piece))).toEqual(expected);
  });

  test('The parser of a log stream takes linear time for a long line, even if it arrives byte by byte', () => {
    const begin = performance.now();
    const parser = new LogStreamParser();
    const piece = 'a'.repeat(16_384);
    for (let number = 0; number < 6400; number += 1) parser.push(piece);
    expect(parser.push('\n\ndata: end\n\n')).toEqual([line('end')]);
    for (const character of `data: ${'b'.repeat(maxLine)}`) parser.push(character);
    expect(parser.push('\n\n')).toHaveLength(1);
    expect(performance.now() - begin).toBeLessThan(10_000);
  });

  test('The parser of a log stream ignores unknown fields', () => {
    expect(new LogStreamParser().push('event: log\nretry: 10\ndata: a\n\n')).toEqual([line('a')]);
  });
});
