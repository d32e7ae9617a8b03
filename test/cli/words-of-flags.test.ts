import * as Flags from '@oclif/core/flags';
import { expect, test } from 'vitest';
import { findOffers, wordsOfFlags } from '../../src/cli/completion/index.js';
import { jobStates } from '../../src/contract/index.js';

const flags = {
  profile: Flags.string({ char: 'p' }),
  json: Flags.boolean(),
  app: Flags.string(),
};

test('Of an unfinished command line the words of some flags are kept', () => {
  const words = (...typed: readonly string[]) => wordsOfFlags(typed, flags);
  expect(words('infer', '--profile', 'lab', '--json', 'scans', '--app=a=b', '--other', 'x', '')).toEqual([
    ...['--profile', 'lab', '--json', '--app=a=b'],
  ]);
  expect(words('infer', '-p', 'lab', '--oth')).toEqual(['-p', 'lab']);
  // The last word is still being typed; behind -- there are no flags.
  expect(words('infer', '--profile', 'la')).toEqual([]);
  expect(words('infer', '--app', 'a', '--', '--profile', 'lab', '')).toEqual(['--app', 'a']);
});

test('What a command line names already is not offered again, alone or in a list', async () => {
  const offered = async (...words: string[]) => {
    const connect = () => Promise.reject(new Error('No server is needed.'));
    return (await findOffers('states', words, connect, '')).map(({ value }) => value);
  };
  const states = await offered('jobs', '');
  expect(states).toEqual([...jobStates]);
  expect(await offered('jobs', 'queued', 'running', '')).toEqual(
    states.filter((state) => state !== 'queued' && state !== 'running'),
  );
  expect(await offered('jobs', '--status=done,killed,')).toEqual(
    states.filter((state) => state !== 'done' && state !== 'killed').map((state) => `done,killed,${state}`),
  );
});
