import type { Interfaces } from '@oclif/core';

/**
 * The words of an unfinished command line that belong to these flags, such as `--profile lab`: the rest may be anything. Words
 * after `--` are no flags, and the last word is being typed.
 */
export function wordsOfFlags(words: readonly string[], flags: Interfaces.FlagInput): string[] {
  const end = words.indexOf('--');
  const typed = words.slice(0, end === -1 ? -1 : end);
  const kept: string[] = [];
  for (let index = 0; index < typed.length; index += 1) {
    const word = typed[index] ?? '';
    const [name = '', joined] = word.split(/=(.*)/s);
    const flag = name.startsWith('--') ? flags[name.slice(2)] : undefined;
    if (!flag) continue;
    if (flag.type === 'boolean' || joined !== undefined) {
      kept.push(word);
      continue;
    }
    index += 1;
    const value = typed[index];
    if (value !== undefined) kept.push(word, value);
  }
  return kept;
}
