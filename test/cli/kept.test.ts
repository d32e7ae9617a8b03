import { expect, test } from 'vitest';
import { hintsOfFailed } from '../../src/cli/command/base-command.js';
import { formatTime } from '../../src/cli/terminal/time-text.js';
import { JobFailed } from '../../src/client/errors.js';

test.each([
  [1, "Job ab left 1 file; 'remote-app result ab --partial' fetches it"],
  [2, "Job ab left 2 files; 'remote-app result ab --partial' fetches them"],
])('What a failed job left is told of %d file(s)', (leftFiles, hint) => {
  const failed = new JobFailed('ab', 'error', 'why', {
    expiresAt: null,
    leftFiles,
    now: 0,
    fetch: "'remote-app result ab --partial'",
  });
  expect(hintsOfFailed(failed)).toEqual([hint]);
});

test('What a failed job left has the time until which it is kept, by the clock of the server', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');
  const facts = { expiresAt: '2026-03-03T12:00:00Z', leftFiles: 0, now, fetch: 'x' };
  expect(hintsOfFailed(new JobFailed('ab', 'error', 'why', facts))).toEqual([
    `Job ab is kept until ${formatTime(facts.expiresAt, () => 'in 2 days')}`,
  ]);
  expect(hintsOfFailed(new JobFailed('ab', 'error', 'why', { ...facts, expiresAt: null }))).toEqual([]);
});
