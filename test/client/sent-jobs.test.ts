import { readdirSync, statSync, utimesSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  commandsNewestFirst,
  forgetSentJob,
  keepSentJob,
  maxSentJobs,
  readSentJob,
  sentJobFile,
} from '../../src/client/sent-jobs.js';
import { temporary } from '../support/temporary.js';

test('The command and the inputs of the newest jobs are kept, and nothing of older ones', async () => {
  await using root = await temporary();
  /** Sent so many seconds after the first. */
  const send = (jobId: string, second: number) => {
    for (const part of ['inputs', 'command'] as const) {
      keepSentJob(root.path, jobId, part, { jobId });
      utimesSync(sentJobFile(root.path, jobId, part), second, second);
    }
  };
  for (let second = 0; second < maxSentJobs; second += 1) send(`job${second}`, second);
  expect(readdirSync(`${root.path}/sent`)).toHaveLength(2 * maxSentJobs);
  keepSentJob(root.path, 'last', 'command', { jobId: 'last' });
  expect(readdirSync(`${root.path}/sent`)).toHaveLength(2 * maxSentJobs - 1);
  const jobs = commandsNewestFirst(root.path);
  expect([jobs.length, jobs[0], jobs[1], jobs.at(-1)]).toEqual([
    maxSentJobs,
    'last',
    `job${maxSentJobs - 1}`,
    'job1',
  ]);
  expect(readSentJob(root.path, 'job1', 'inputs', 100)).toEqual({ jobId: 'job1' });
  expect(() => readSentJob(root.path, 'job0', 'inputs', 100)).toThrow('ENOENT');
  forgetSentJob(root.path, 'job1', 'inputs');
  expect(() => readSentJob(root.path, 'job1', 'inputs', 100)).toThrow('ENOENT');
  expect(commandsNewestFirst(root.path).at(-1)).toBe('job1');
});

test('The stored commands and inputs are readable only by their user, and an unwritable home is not an error', async () => {
  await using root = await temporary();
  keepSentJob(root.path, 'ab', 'names', { 'case-0001': 'ada' });
  const modes = ['sent', 'sent/ab.names.json'].map((name) => statSync(`${root.path}/${name}`).mode & 0o777);
  expect(modes).toEqual([0o700, 0o600]);
  expect(readSentJob(root.path, 'ab', 'names', 100)).toEqual({ 'case-0001': 'ada' });
  expect(() => readSentJob(root.path, 'ab', 'names', 10)).toThrow();
  // It has no command.
  expect(commandsNewestFirst(root.path)).toEqual([]);
  const file = `${root.path}/sent/ab.names.json`;
  keepSentJob(file, 'cd', 'names', {});
  forgetSentJob(file, 'cd', 'names');
  forgetSentJob(root.path, 'gone', 'names');
  expect(readdirSync(`${root.path}/sent`)).toEqual(['ab.names.json']);
});
