import { describe, expect, test } from 'vitest';
import { caption, forTerminal } from '../../../src/cli/terminal/terminal-text.js';

const esc = '\u001b';
const reset = `${esc}[0m`;

describe('text for a terminal', () => {
  test.each([
    ['plain text, with a tab', 'a\tb ä 日本 🧠', 'a\tb ä 日本 🧠'],
    ['colours, which end with their line', `${esc}[1;38:2:255:0:0mred`, `${esc}[1;38:2:255:0:0mred${reset}`],
    ['each line for itself', `${esc}[31ma\nb\n`, `${esc}[31ma${reset}\nb\n`],
    ['the clipboard', `a${esc}]52;c;ZXZpbA==\u0007b`, 'ab'],
    ['a title, ended by ST', `a${esc}]0;title${esc}\\b`, 'ab'],
    ['a link', `${esc}]8;;http://evil${esc}\\here${esc}]8;;${esc}\\`, 'here'],
    ['DCS, APC, PM and SOS', `${esc}Pq${esc}\\${esc}_x${esc}\\${esc}^y${esc}\\${esc}Xz${esc}\\a`, 'a'],
    ['the cursor and the screen', `${esc}[2J${esc}[1;1H${esc}[?1049h${esc}[1Aa${esc}[K`, 'a'],
    ['a reset, a character set', `${esc}c${esc}(0${esc}7${esc}Ma`, 'a'],
    ['a question of the terminal', `${esc}[6n${esc}[>cm`, 'm'],
    ['a sequence without an end', `${esc}]52;c;abc`, '\\x1b]52;c;abc'],
    ['half of one', `a${esc}[`, 'a\\x1b['],
    ['C0 and DEL', 'a\u0000\b\u0007\r\u000b\u000c\u007fb', 'a\\x00\\x08\\x07\\x0d\\x0b\\x0c\\x7fb'],
    ['C1, as code points', '\u009b2J\u009d0;x\u009c\u0085', '\\x9b2J\\x9d0;x\\x9c\\x85'],
    ['the direction of text', 'a\u202eb\u2066c\u200fd\u061ce', 'a\\u202eb\\u2066c\\u200fd\\u61ce'],
    ['the separators of lines and of paragraphs', 'a\u2028b\u2029c', 'a\\u2028b\\u2029c'],
    ['a colour with too many parameters', `${esc}[${'1;'.repeat(99)}mx`, 'x'],
  ])('Text from outside is made safe for a terminal: %s', (_, text, safe) => {
    expect(forTerminal(text)).toBe(safe);
  });

  test('Text for a terminal is cleaned in linear time, whatever it contains', () => {
    const begin = performance.now();
    for (const piece of [`${esc}]`, `${esc}[`, `${esc}[1;`, `${esc}P`, '\u009b', `${esc}[31m`]) {
      forTerminal(piece.repeat(300_000));
      forTerminal(`${piece}${'1'.repeat(1_000_000)}`);
    }
    expect(performance.now() - begin).toBeLessThan(10_000);
  });

  test('Text next to a spinner is short, on one line and without colours', () => {
    expect(caption(`a\n${esc}[31mb${esc}]0;t\u0007\r`)).toBe('a b\\x0d');
    expect(caption('x'.repeat(1e6))).toHaveLength(500);
  });
});
