import { describe, expect, test } from 'vitest';
import { LineSplitter, maxLineLength } from '../../src/runner/line-splitter.js';

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
    ['\n\r', ['', '\r']],
    ['no end', ['no end']],
    ['', []],
    ['é🧠\u2028x\n', ['é🧠\u2028x']],
  ] as [string, string[]][])('is cut into lines, wherever its pieces end: %o', ([text, expected]) => {
    const bytes = Buffer.from(text);
    expect(lines(text)).toEqual(expected);
    expect(lines(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(
      // A lone \r at the end of a piece is a line; the \n that follows it belongs to it.
      expected.map((line, index) =>
        text === 'a\r\nb\r\n' || (text === '\r\r\n' && index === 1) ? `${line}\r` : line,
      ),
    );
  });

  test('has U+FFFD for what is not UTF-8', () => {
    expect(lines(Uint8Array.of(0xff, 0xfe, 0x0a, 0xe2, 0x82, 0x0a, 0x41))).toEqual([
      '\ufffd\ufffd',
      '\ufffd',
      'A',
    ]);
    expect(lines(Uint8Array.of(0x41, 0xe2, 0x82))).toEqual(['A\ufffd']);
  });

  test('is held in memory for no more than a line', () => {
    const splitter = new LineSplitter();
    const chunk = Buffer.alloc(maxLineLength, 'x');
    for (let count = 1; count < 5; count += 1) {
      expect(splitter.push(chunk).length).toBe(count === 1 ? 0 : 1);
    }
    expect(splitter.push(Buffer.from('end\n')).map(({ text }) => text.length)).toEqual([maxLineLength, 3]);
  });

  test('is cut within no character', () => {
    const text = `${'x'.repeat(maxLineLength - 1)}🧠🧠`;
    const [first = '', second = ''] = lines(text);
    expect([first.length, second]).toEqual([maxLineLength - 1, '🧠🧠']);
  });
});
