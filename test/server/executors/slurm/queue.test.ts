import { expect, onTestFinished, test } from 'vitest';
import { JobQueue } from '../../../../src/server/executors/slurm/queue.js';

const line = (id: number, rest: string) => `${id}|PENDING|7||1:00:00|Priority|${rest}`;

test('The queue is queried once for all waiting jobs, and reports a failure until it answers again', async () => {
  const answers: ((value: string | Error) => void)[] = [];
  const asked: (readonly string[])[] = [];
  const queue = new JobQueue(async (words) => {
    asked.push(words);
    const answer = await new Promise<string | Error>((resolve) => answers.push(resolve));
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const follower = queue.follow();
  onTestFinished(() => follower[Symbol.dispose]());
  // One that began before does not count.
  let isRefreshed = false;
  const refreshed = Promise.all([queue.refresh(), queue.refresh()]).then(() => {
    isRefreshed = true;
  });
  answers[0]?.(line(1, 'remote-app-0123456789ab|/data/jobs/a'));
  await expect.poll(() => queue.rowsOf('/data/jobs/a')).toHaveLength(1);
  expect([isRefreshed, queue.rowsOf('/data/jobs/b'), queue.problem]).toEqual([false, [], null]);
  await expect.poll(() => answers.length, { timeout: 5000 }).toBe(2);
  answers[1]?.(new Error('squeue was ended'));
  await refreshed;
  // What was known stays known.
  expect([queue.problem, queue.rowsOf('/data/jobs/a').length, asked.length]).toEqual([
    'squeue was ended',
    1,
    2,
  ]);
  expect(asked[0]?.slice(0, 3)).toEqual(['--noheader', '--me', '--states=all']);
});
