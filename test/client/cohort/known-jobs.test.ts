import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { JobCases, KnownJobs } from '../../../src/client/cohort/known-jobs.js';
import { temporary } from '../../support/temporary.js';

const job = (jobId: string, more: object = {}) => ({ key: 'k', attempt: 1, jobId, isOver: false, ...more });

test('The next command knows the job of each case and key until the case is done', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, 'jobs.jsonl');
  const first = new KnownJobs(file);
  first.close(new Set());
  expect(() => statSync(file)).toThrow('ENOENT');
  first.set('a', job('j1'));
  first.set('b', job('j2', { attempt: 3, isOver: true }));
  first.set('a', job('j3', { attempt: 2 }));
  // As a command that was killed leaves it.
  writeFileSync(file, `${readFileSync(file, 'utf8')}["c","k","1","j4"]\n["c","k",1`);
  const second = new KnownJobs(file);
  expect([
    second.get('a', 'k'),
    second.get('b', 'k'),
    second.get('a', 'other'),
    second.get('c', 'k'),
  ]).toEqual([job('j3', { attempt: 2 }), job('j2', { attempt: 3, isOver: true }), null, null]);
  second.set('d', job('j5'));
  second.close(new Set(['a']));
  expect(readFileSync(file, 'utf8')).toBe('["b","k",3,"j2",true]\n["d","k",1,"j5",false]\n');
  // Colleagues may go on with the cohort.
  expect(statSync(file).mode & 0o777).toBe(0o666 & ~process.umask());
});

test('An unreadable jobs file is an error, and is not treated as missing', async () => {
  await using directory = await temporary();
  mkdirSync(path.join(directory.path, 'jobs.jsonl'));
  expect(() => new KnownJobs(path.join(directory.path, 'jobs.jsonl'))).toThrow('it is not a regular file');
});

test('A job belongs to one case, or to several cases with the same files', () => {
  const jobCases = new JobCases();
  jobCases.claim('j1', 'a', 'k');
  jobCases.claim('j1', 'a', 'other');
  expect(() => jobCases.claim('j1', 'b', 'k')).toThrow(
    "The server answered with job j1, which is that of 'a'",
  );
  jobCases.claim('j1', 'b', 'other');
  jobCases.remember('j2', 'nobody', 'z');
  jobCases.remember('j2', 'somebody', 'k');
  jobCases.claim('j2', 'c', 'z');
  expect(() => jobCases.claim('j2', 'd', 'y')).toThrow("which is that of 'c'");
});
