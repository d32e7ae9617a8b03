import { expect, test } from 'vitest';
import {
  concernsAllCases,
  goOnLater,
  LastLine,
  reasonOf,
  withMore,
  withoutRoom,
} from '../../../src/client/cohort/failures.js';
import {
  ClientError,
  HttpError,
  JobFailed,
  NoRoom,
  TransportError,
  UsageError,
  WriteError,
  withResumeHint,
} from '../../../src/client/errors.js';
import type { Reporter } from '../../../src/client/reporter.js';
import { memoryReporter } from '../support/connect.js';

const full = Object.assign(new Error('ENOSPC: no space'), { code: 'ENOSPC', errno: -28 });
const connection = { nextCommand: (words: string) => `remote-app ${words}` };
/** As it is where it says how to go on. */
const explained = (error: Error) => withResumeHint(connection, 'ab', error, { isKnown: true });

test.each([
  ['a full disk here', new WriteError('/x', full, 'go on'), true],
  ['a result that has no room', new NoRoom('x', 'go on'), true],
  ['a server that is away', explained(new TransportError('broken', 'x')), true],
  ['a full disk of the server', new HttpError(507, 'x', null), true],
  ['a token that is refused', explained(new HttpError(401, 'x', null)), true],
  ['a refused field', new HttpError(422, 'x', null), false],
  ['a file that is damaged', new UsageError('x'), false],
  ['a job that failed', new JobFailed('ab', 'error', 'x'), false],
])('%s would be met by every other case: %#', (_, error, concerns) => {
  expect(concernsAllCases(error)).toBe(concerns);
});

test('Where a result has no room, the same command goes on, and nothing else fetches it', () => {
  const wrapped = new ClientError(
    'y',
    1,
    {},
    { cause: new NoRoom('The result needs 2 GiB', "run 'result'") },
  );
  for (const error of [wrapped, wrapped.cause])
    expect(withoutRoom('/out/a', error)).toMatchObject({
      message: `The result needs 2 GiB; free some space, then ${goOnLater}`,
    });
  expect(withoutRoom('/out/a', new WriteError('/tmp/private', full, "run 'result'"))).toMatchObject({
    message: expect.stringMatching(/^Cannot write '\/out\/a': .* then give the same command again:/),
  });
  const other = new UsageError('x');
  expect(withoutRoom('/out/a', other)).toBe(other);
});

test('A failure has the last line of the app where its reason says less', async () => {
  const { next, lines } = {
    next: memoryReporter(),
    lines: ['one', '[remote-app] ended', '  ', 'x'.repeat(300)],
  };
  const last = new LastLine(next);
  const seen: string[] = [];
  for (const [at, line] of lines.entries()) {
    await last.line(line, false, at + 1);
    seen.push(last.text);
  }
  expect(seen.slice(0, 3)).toEqual(['one', 'one', 'one']);
  expect(seen[3]?.length).toBeLessThan(210);
  expect(next.lines).toEqual(lines);

  const failed = (state: 'error' | 'killed', reason: string) => new JobFailed('ab', state, reason);
  expect(reasonOf(failed('error', 'Exit code 3'), 'out of memory')).toBe('Exit code 3: out of memory');
  expect(reasonOf(failed('error', 'It is out of memory'), 'out of memory')).toBe('It is out of memory');
  expect(reasonOf(failed('error', 'Exit code 3'), '')).toBe('Exit code 3');
  expect(reasonOf(failed('killed', 'Killed by user'), 'out of memory')).toBe('Killed by user');
  expect(reasonOf(new UsageError('It is empty'), 'one')).toBe('It is empty');
  expect([withMore('It failed.', '; go on'), withMore('It failed.', '')]).toEqual([
    'It failed; go on',
    'It failed.',
  ]);
});

test('All that is told of a job is passed on', async () => {
  const told: unknown[] = [];
  const note =
    (name: string) =>
    (...given: unknown[]) =>
      told.push([name, ...given]) > 0;
  const names = ['endLog', 'note', 'waiting', 'running', 'silent', 'progress', 'line'] as const;
  const next = Object.fromEntries(names.map((name) => [name, note(name)])) as unknown as Reporter;
  const last = new LastLine(next);
  await last.line('a', true, 7);
  await last.endLog();
  last.note('b');
  last.waiting('c', true);
  last.waiting(null);
  last.running(true);
  last.silent('d');
  last.progress('Uploading', 1, 2);
  expect(told).toEqual([
    ['line', 'a', true, 7],
    ['endLog'],
    ['note', 'b'],
    ['waiting', 'c', true],
    ['waiting', null, undefined],
    ['running', true],
    ['silent', 'd'],
    ['progress', 'Uploading', 1, 2],
  ]);
});
