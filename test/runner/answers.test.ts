import { expect, test } from 'vitest';
import { AnswerReader } from '../../src/runner/worker-process.js';

const done = { kind: 'done', job: 'a', exitCode: 3, isLast: false };

test("A worker's answers are complete at their newline, however they are split", () => {
  const reader = new AnswerReader();
  const push = (text: string) => [...reader.push(Buffer.from(text))];
  expect(push('{"ready": true}\n{"job": "a", "exit')).toEqual([{ kind: 'ready' }]);
  expect(reader.hasBegun).toBe(true);
  expect(push('_code": 3}\n{"job": "b", "exit_code": 0, "last": true}\n')).toEqual([
    done,
    { kind: 'done', job: 'b', exitCode: 0, isLast: true },
  ]);
  expect(reader.hasBegun).toBe(false);
});

test.for([
  ['no JSON\n', 'answered with a line that is not JSON'],
  ['{"exit_code": 0}\n', 'answered with a line that names no job'],
  ...['256', '-1', '1.5', '"0"', 'null'].map((code) => [
    `{"job": "a", "exit_code": ${code}}\n`,
    'answered with an exit code that is not a whole number from 0 to 255',
  ]),
  ['x'.repeat(64 * 1024 + 1), 'answered with a line of more than 64 KiB'],
  [`"${'x'.repeat(64 * 1024)}"\n`, 'answered with a line of more than 64 KiB'],
] as [string, string][])('A wrong answer is reported: %.30s', ([text, sentence]) => {
  expect(() => [...new AnswerReader().push(Buffer.from(text))]).toThrow(sentence);
});
