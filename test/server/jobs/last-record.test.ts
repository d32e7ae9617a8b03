import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
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

test('An accepted job has room on the disk for a last record with a long reason', async () => {
  const { job, directory } = await makeJob();
  const last = { ...job.record, state: 'error', error: 'x'.repeat(4000) };
  expect(statSync(`${directory.recordFile}.reserved`).size).toBeGreaterThan(JSON.stringify(last).length);
  await directory.saveLast(job.record);
  expect(readdirSync(directory.path).filter((name) => name.endsWith('.reserved'))).toEqual([]);
});

test('A FIFO in the place of a record does not block the last record on a full disk', async () => {
  const { job, directory } = await makeJob();
  rmSync(directory.recordFile);
  execFileSync('mkfifo', [directory.recordFile]);
  const last: JobRecord = { ...job.record, state: 'killed' };
  await new FullDirectory(directory.id, directory.path).saveLast(last);
  expect(JSON.parse(readFileSync(directory.recordFile, 'utf8'))).toEqual(last);
});

test('A job that is left to the next server finishes the write in progress, and writes nothing more', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  job.noteVersion(Promise.resolve('before'));
  await job.versionKnown(1000);
  const left = job.leave();
  job.noteVersion(Promise.resolve('after'));
  await job.versionKnown(1000);
  letGo();
  await left;
  expect(directory.latest?.record.appVersion).toBe('before');
  expect(job.record.appVersion).toBe('after');
});
