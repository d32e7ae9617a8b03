import { describe, expect, test } from 'vitest';
import { Screen } from './screen.js';

const esc = '\u001b';
const shown = (text: string, columns = 10): string[] => new Screen(columns).write(text).rows;

describe('the model of a terminal', () => {
  test.each([
    ['lines', 'a\r\nb\r\n', ['a', 'b']],
    ['a line feed alone, which keeps the column', 'ab\nc', ['ab', '  c']],
    ['text over text', 'abcdef\rxy', ['xycdef']],
    ['text behind the end of a row', `a${esc}[4Cb`, ['a    b']],
    ['a row that is deleted behind the cursor', `abcdef\r\u001b[3G${esc}[K`, ['ab']],
    ['a row that is deleted up to the cursor', `abcdef${esc}[3G${esc}[1K`, ['   def']],
    ['a whole row that is deleted', `abcdef${esc}[2Kg`, ['      g']],
    ['rows below that are deleted', `a\r\nb\r\nc${esc}[1A\r${esc}[J`, ['a']],
    ['a whole screen that is deleted above it', `a\r\nb${esc}[1A\r${esc}[Jc`, ['a', 'b', 'c']],
    ['the cursor up and down', `a\r\nb${esc}[Ac${esc}[Bd`, ['ac', 'b d']],
    ['backspaces and tabs', 'ab\bc\td', ['ac      d']],
    ['colours', `${esc}[31mred${esc}[0m`, ['red']],
    ['wide characters', '肝臓x', ['肝臓x']],
    ['a row that is full', '0123456789', ['0123456789']],
    ['a row that is longer than the screen', '0123456789ab', ['0123456789', 'ab']],
    ['a wide character that does not fit', '012345678肝', ['012345678', '肝']],
  ])('The model of a terminal shows %s', (_, text, rows) => {
    expect(shown(text)).toEqual(rows);
    const inPieces = new Screen(10);
    for (const character of text) inPieces.write(character);
    expect(inPieces.rows).toEqual(rows);
  });

  test('The model can keep text in its row', () => {
    const screen = new Screen(10).write(`${esc}[?7l0123456789abc${esc}[?7h\r\nd`);
    expect([screen.rows, screen.wrapped]).toEqual([['012345678c', 'd'], []]);
  });

  test('The model knows which rows were too long', () => {
    expect(new Screen(10).write('0123456789\r\nabc').wrapped).toEqual([]);
    expect(new Screen(10).write('0123456789abc').wrapped).toEqual(['0123456789']);
  });

  test('The model rejects sequences that our lines do not need', () => {
    for (const text of [`${esc}[2J`, `${esc}[1;1H`, '\u0000'])
      expect(() => shown(text)).toThrow('A terminal got');
  });

  test('The model wraps rows again when its width changes, and keeps the cursor at its character', () => {
    const screen = new Screen(10).write('above\r\n0123456789\r');
    screen.resize(4);
    expect([screen.rows, screen.cursor]).toEqual([
      ['abov', 'e', '0123', '4567', '89'],
      [2, 0],
    ]);
    screen.write(`${esc}[J`);
    screen.resize(10);
    expect([screen.rows, screen.cursor]).toEqual([['above'], [1, 0]]);
  });
});
