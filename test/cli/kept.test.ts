import { expect, test } from 'vitest';
import { hintsOfFailed } from '../../src/cli/command/failed-job.js';
import { JobFailed } from '../../src/client/errors.js';

test.each([
  [1, "Job ab left 1 file; 'remote-app result ab --partial' fetches it"],
  [2, "Job ab left 2 files; 'remote-app result ab --partial' fetches them"],
])('what a failed job left is told of %d file(s)', (leftFiles, hint) => {
  const failed = new JobFailed('ab', 'error', 'why', {
    expiresAt: null,
    leftFiles,
    now: 0,
    fetch: "'remote-app result ab --partial'",
  });
  expect(hintsOfFailed(failed)).toEqual([hint]);
});
