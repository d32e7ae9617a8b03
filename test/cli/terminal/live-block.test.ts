import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { LiveBlock } from '../../../src/cli/terminal/index.js';

const esc = '\u001b[';
const begin = `${esc}?2026h${esc}?7l`;
const end = `${esc}?7h${esc}?2026l`;
const line = (text: string) => `${text}${esc}K\r\n`;
const up = (rows: number) => `\r${esc}${rows}A`;

/** A block on a terminal of this size, and what it writes for these lines. */
function block(size: { columns?: number; rows?: number }) {
  const stream = Object.assign(new PassThrough(), size);
  const live = new LiveBlock(stream);
  const draw = (...lines: string[]): string => {
    live.draw(lines);
    return String(stream.read() ?? '');
  };
  return { stream, draw };
}

test('Only changed lines are rewritten, and lines that are gone are removed', () => {
  const { draw } = block({ columns: 80, rows: 24 });
  expect(draw('a', 'b', 'c')).toBe(`${begin}\r${line('a')}${line('b')}${line('c')}${esc}J${end}`);
  expect(draw('a', 'b', 'c')).toBe('');
  expect(draw('a', 'x', 'c')).toBe(`${begin}${up(3)}\r\n${line('x')}\r\n${end}`);
  expect(draw('a', 'x')).toBe(`${begin}${up(3)}\r\n\r\n${esc}J${end}`);
  expect(draw('a', 'x', 'd')).toBe(`${begin}${up(2)}\r\n\r\n${line('d')}${end}`);
});

test('All lines are redrawn on a terminal that became narrower and wrapped them', () => {
  const { stream, draw } = block({ columns: 80, rows: 24 });
  draw('x'.repeat(100), 'short', '');
  stream.columns = 40;
  expect(draw('x', 'short')).toBe(`${begin}${up(4)}${line('x')}${line('short')}${esc}J${end}`);
  stream.columns = 90;
  expect(draw('x', 'short')).toBe(`${begin}${up(2)}${line('x')}${line('short')}${esc}J${end}`);
});

test.each([
  [4, ['1', '2', '... and 2 lines more']],
  [5, ['1', '2', '3', '4']],
  [1, ['1', '... and 3 lines more']],
])('If there are more lines than %d rows can show, the last row counts the rest', (rows, shown) => {
  const { draw } = block({ columns: 80, rows });
  expect(draw('1', '2', '3', '4')).toBe(`${begin}\r${shown.map(line).join('')}${esc}J${end}`);
});

test('A terminal of unknown height has 24 rows, and text from outside does not move its cursor', () => {
  const { draw } = block({ columns: 80 });
  const lines = Array.from({ length: 24 }, (_, at) => String(at));
  expect(draw(...lines)).toContain('21\u001b[K\r\n... and 2 lines more\u001b[K');
  expect(draw('a\nb\u001b[2J')).toContain(line('a b'));
});
