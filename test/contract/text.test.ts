import { expect, test } from 'vitest';
import {
  counted,
  escaped,
  formatBytes,
  isPlainWord,
  longestDuration,
  oneLine,
  quoteName,
  quotePath,
  readDuration,
  shellWord,
  spellDuration,
  unlabelled,
} from '../../src/contract/text.js';

test.each([
  ['a\nb\u0007', String.raw`a\x0ab\x07`],
  ['\u009b2J', String.raw`\x9b2J`],
  ['a\u2028b\u202ec', String.raw`a\u2028b\u202ec`],
  ['\u00e9 \u00ff \u0100', '\u00e9 \u00ff \u0100'],
])('%j becomes one line without control characters for a terminal', (text, line) => {
  expect(oneLine(text)).toBe(line);
});

test('A very long name in a sentence is cut off, and a path is not', () => {
  expect(quoteName('x'.repeat(200))).toBe(`'${'x'.repeat(200)}'`);
  expect(quoteName('x'.repeat(201))).toBe(`'${'x'.repeat(200)}...'`);
  expect(quotePath('x'.repeat(4096))).toBe(`'${'x'.repeat(4096)}'`);
});

test.each([
  '\u0000',
  '\u001f',
  '\u007f',
  '\u009f',
  '\u2028',
  '\u2029',
  '\u200e',
  '\u200f',
  '\u202a',
  '\u2066',
  '\u2069',
])('%j is shown by its code point', (character) => {
  const shown = JSON.stringify(escaped(character)).replaceAll('\\\\', '\\').slice(1, -1);
  expect(oneLine(`a${character}b`)).toBe(`a${shown}b`);
  expect(Number.parseInt(shown.slice(2), 16)).toBe(character.charCodeAt(0));
  expect(shown).toMatch(/^\\(x[\da-f]{2}|u[\da-f]{4})$/);
});

test('A plain word needs no quotes, and any other is quoted as a whole', () => {
  expect(['a', 'a b', '', 'a-b_C.1', 'ä'].map(isPlainWord)).toEqual([true, false, false, true, false]);
  expect(["it's", 'a', '$(x)'].map(shellWord)).toEqual([String.raw`'it'\''s'`, 'a', "'$(x)'"]);
});

test.each([
  ['Error: no', 'no'],
  [' error:  ERROR: no', 'no'],
  ['an Error: no', 'an Error: no'],
  ['Error:no', 'Error:no'],
])('The label of %j is removed', (text, plain) => {
  expect(unlabelled(text)).toBe(plain);
});

test.each([
  ['a/b-c_d.e:f,g=h@i+j%', 'a/b-c_d.e:f,g=h@i+j%'],
  ['', "''"],
  ['a b', "'a b'"],
  ['$HOME', "'$HOME'"],
  ['a;', "'a;'"],
  ["it's", String.raw`'it'\''s'`],
])('%j is quoted for a shell as %s', (text, word) => {
  expect(shellWord(text)).toBe(word);
});

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [1536, '1.5 KiB'],
  [2 ** 20, '1.0 MiB'],
  [5.25 * 2 ** 30, '5.3 GiB'],
  [2048 * 2 ** 40, '2048.0 TiB'],
])('%i bytes are shown as %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test('A count of one is singular', () => {
  expect([0, 1, 2].map((count) => counted(count, 'file'))).toEqual(['0 files', '1 file', '2 files']);
});

test.each([
  ['90', 90],
  ['90s', 90],
  [' 15 m ', 900],
  ['12H', 43_200],
  ['7d', 604_800],
  ['0', 0],
  [`${longestDuration}`, longestDuration],
  [`${longestDuration + 1}`, undefined],
  ['24856d', undefined],
  ['1.5h', undefined],
  ['-1', undefined],
  ['1w', undefined],
  ['in 5m', undefined],
  ['5mm', undefined],
  ['', undefined],
  ['h', undefined],
])('The time %j has %j seconds', (text, seconds) => {
  expect(readDuration(text)).toBe(seconds);
});

test.each([
  [604_800, '7d'],
  [129_600, '36h'],
  [5400, '90m'],
  [90, '90s'],
  [0, '0s'],
])('%i seconds are spelled %s', (seconds, text) => {
  expect(spellDuration(seconds)).toBe(text);
  expect(readDuration(text)).toBe(seconds);
});
