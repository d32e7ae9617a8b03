import { describe, expect, test } from 'vitest';
import { LineSplitter } from '../../src/runner/log.js';

const maxLineLength = 64 * 1024;

/** Lines of an output that comes in these pieces; a redraw has a trailing `\r`. */
function lines(...pieces: (string | Uint8Array)[]): string[] {
  const splitter = new LineSplitter();
  const cut = pieces.flatMap((piece) => splitter.push(Buffer.from(piece as string)));
  return [...cut, ...splitter.end()].map(({ text, isRedraw }) => (isRedraw ? `${text}\r` : text));
}

describe('an output', () => {
  test.for([
    ['a\nb\n', ['a', 'b']],
    ['a\r\nb\r\n', ['a', 'b']],
    ['1\r2\r3\n', ['1\r', '2\r', '3']],
    ['\n\n', ['', '']],
    ['\r\r\n', ['\r', '']],
    ['1\r', ['1\r']],
    ['\n\r', ['', '\r']],
    ['no end', ['no end']],
    ['', []],
    ['é🧠\u2028x\n', ['é🧠\u2028x']],
  ] as [string, string[]][])(
    'An output is split into lines regardless of how it arrives: %o',
    ([text, expected]) => {
      const bytes = Buffer.from(text);
      expect(lines(text)).toEqual(expected);
      expect(lines(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
    },
  );

  test('An output line ends at a lone carriage return after a pause, and a following line feed ends nothing', () => {
    const splitter = new LineSplitter();
    expect([splitter.push(Buffer.from('1\r2\r')), splitter.pause(), splitter.pause()]).toEqual([
      [{ text: '1', isRedraw: true }],
      [{ text: '2', isRedraw: true }],
      [],
    ]);
    expect(splitter.push(Buffer.from('\nnext\n'))).toEqual([{ text: 'next', isRedraw: false }]);
  });

  test('An output keeps at most one line in memory', () => {
    const splitter = new LineSplitter();
    const chunk = Buffer.alloc(maxLineLength, 'x');
    for (let count = 1; count < 5; count += 1) {
      expect(splitter.push(chunk).length).toBe(count === 1 ? 0 : 1);
    }
    expect(splitter.push(Buffer.from('end\n')).map(({ text }) => text.length)).toEqual([maxLineLength, 3]);
  });

  test('An output is never cut inside a character', () => {
    const text = `${'x'.repeat(maxLineLength - 1)}🧠🧠`;
    const [first = '', second = ''] = lines(text);
    expect([first.length, second]).toEqual([maxLineLength - 1, '🧠🧠']);
  });
});
