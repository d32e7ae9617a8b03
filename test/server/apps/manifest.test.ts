import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { onLines } from '../../../src/server/apps/manifest.js';
import { temporary } from '../../support/temporary.js';

const nested = (open: string, close: string, depth: number) => open.repeat(depth) + 1 + close.repeat(depth);

test('a fault of an app.json is told with the line of its value, or of what it is missing in', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  writeFileSync(file, '{\n  "tta": "x",\n  "inputs": {\n    "Volume": {}\n  }\n}\n');
  const lines = onLines(file, [
    { path: ['tta'], problem: 'it is no number' },
    { path: ['inputs', 'Volume', 'display_name'], problem: 'it is missing' },
    { path: [], problem: 'it is an odd app' },
  ]);
  expect(lines.map(({ line }) => line)).toEqual([2, 4, 1]);
});

test('the line of a value is found whatever stands before it', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  const before = {
    text: '}],:\\"{[',
    'a "key"': [1, [2, { tta: 3 }], {}],
    none: null,
    long: 'x'.repeat(900_000),
  };
  writeFileSync(
    file,
    `${JSON.stringify(before).slice(0, -1)},\n"models": ["a",\n {"tta": 1},\n "b"],\n"tta": {}}`,
  );
  const paths = [
    ['a "key"', 1, 1, 'tta'],
    ['models'],
    ['models', 1, 'tta'],
    ['models', 2],
    ['tta'],
    ['tta', 'x'],
  ];
  const lines = onLines(
    file,
    paths.map((each) => ({ path: each, problem: 'it is wrong' })),
  );
  expect(lines.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5, 5]);
});

test.each([
  ['lists', '[', ']'],
  ['objects', '{"a":', '}'],
])('an app.json of very many levels of %s is told with its line', async (_, open, close) => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  for (const depth of [100, 10_000, 100_000]) {
    writeFileSync(file, `{"more":${nested(open, close, depth)},\n"tta":1}`);
    expect(onLines(file, [{ path: ['tta'], problem: 'it is wrong' }])).toMatchObject([{ line: 2 }]);
  }
});
