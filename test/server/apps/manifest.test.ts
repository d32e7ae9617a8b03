import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { isDeepYaml, onLines } from '../../../src/server/apps/manifest.js';
import { temporary } from '../../support/temporary.js';

const nested = (open: string, close: string, depth: number) => open.repeat(depth) + 1 + close.repeat(depth);

test('a fault of an app.json is told with the line of its value, or of what it is missing in', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'app.json');
  writeFileSync(file, '{\n  "tta": "x",\n  "inputs": {\n    "Volume": {}\n  }\n}\n');
  const lines = await onLines(file, [
    { path: ['tta'], problem: 'it is no number' },
    { path: ['inputs', 'Volume', 'display_name'], problem: 'it is missing' },
    { path: [], problem: 'it is an odd app' },
  ]);
  expect(lines.map(({ line }) => line)).toEqual([2, 4, 1]);
});

// Where the call stack ends in a regular expression of YAML's parser, Node ends the whole process: no depth may reach it.
test.each([
  ['lists', '[', ']'],
  ['objects', '{"a":', '}'],
])(
  'an app.json of very many levels of %s is told without a line, and not gone through',
  async (_, open, close) => {
    await using root = await temporary();
    const file = path.join(root.path, 'app.json');
    for (const depth of [100, 1000, 3000, 10_000, 100_000]) {
      const text = `{"display_name":"A","more":${nested(open, close, depth)}}`;
      writeFileSync(file, text);
      expect(isDeepYaml(text)).toBe(true);
      expect(await onLines(file, [{ path: [], problem: 'it is too deep' }])).toMatchObject([{ line: null }]);
    }
    expect(isDeepYaml(`{"more":${nested(open, close, 40)}}`)).toBe(false);
  },
);
