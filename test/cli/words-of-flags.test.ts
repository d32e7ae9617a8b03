import * as Flags from '@oclif/core/flags';
import { expect, test } from 'vitest';
import { wordsOfFlags } from '../../src/cli/completion/index.js';

const flags = {
  profile: Flags.string({ char: 'p' }),
  json: Flags.boolean(),
  app: Flags.string(),
};

test('of an unfinished command line the words of some flags are kept', () => {
  const words = (...typed: readonly string[]) => wordsOfFlags(typed, flags);
  expect(words('infer', '--profile', 'lab', '--json', 'scans', '--app=a=b', '--other', 'x', '')).toEqual([
    ...['--profile', 'lab', '--json', '--app=a=b'],
  ]);
  expect(words('infer', '-p', 'lab', '--oth')).toEqual(['-p', 'lab']);
  // The last word is still being typed; behind -- there are no flags.
  expect(words('infer', '--profile', 'la')).toEqual([]);
  expect(words('infer', '--app', 'a', '--', '--profile', 'lab', '')).toEqual(['--app', 'a']);
});
