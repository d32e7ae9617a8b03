import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { numberedCases } from '../../../src/client/cohort/index.js';
import { temporary } from '../../support/temporary.js';

test('Cases keep their numbers, which are written only on request', async () => {
  await using directory = await temporary();
  mkdirSync(path.join(directory.path, '.remote-app'));
  const numbers = (names: string[], isWritten: boolean) => [
    ...numberedCases(directory.path, names, { isWritten }),
  ];
  expect(numbers(['b', 'c'], false)).toEqual([
    ['b', 1],
    ['c', 2],
  ]);
  expect(numbers(['c'], true)).toEqual([['c', 1]]);
  expect(numbers(['a', 'b', 'c'], true)).toEqual([
    ['c', 1],
    ['a', 2],
    ['b', 3],
  ]);
  const file = path.join(directory.path, '.remote-app', 'neutral-names.json');
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ c: 1, a: 2, b: 3 });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, -4));
  expect(() => numbers(['a'], true)).toThrow(/neutral-names\.json' cannot be read; remove it/);
});

test('A case with an invalid number gets the next one after the highest', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, '.remote-app', 'neutral-names.json');
  mkdirSync(path.dirname(file));
  writeFileSync(file, '{"a": 7, "b": "2", "c": -1, "d": 0, "e": 1.5, "f": 1}');
  const given = numberedCases(directory.path, ['b', 'c', 'f', 'g'], { isWritten: true });
  expect([...given]).toEqual([
    ['a', 7],
    ['f', 1],
    ['b', 8],
    ['c', 9],
    ['g', 10],
  ]);
  const { mtimeNs } = statSync(file, { bigint: true });
  numberedCases(directory.path, ['g'], { isWritten: true });
  expect(statSync(file, { bigint: true }).mtimeNs).toBe(mtimeNs);
});
