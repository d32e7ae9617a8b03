import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import type { JobRecord } from '../../../src/server/jobs/job-record.js';
import { makeJob } from './held-job.js';

/** A directory on a full disk. */
class FullDirectory extends JobDirectory {
  override async save(): Promise<void> {
    throw Object.assign(new Error('No space left on device'), { code: 'ENOSPC' });
  }
}

test('a record that a job replaced by a FIFO keeps no last record waiting on a full disk', async () => {
  const { job, directory } = await makeJob();
  rmSync(directory.recordFile);
  execFileSync('mkfifo', [directory.recordFile]);
  const last: JobRecord = { ...job.record, state: 'killed' };
  await new FullDirectory(directory.id, directory.path).saveLast(last);
  expect(JSON.parse(readFileSync(directory.recordFile, 'utf8'))).toEqual(last);
});
