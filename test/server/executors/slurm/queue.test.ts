import { expect, onTestFinished, test } from 'vitest';
import { JobQueue, parseRows, phaseOf, waitingWords } from '../../../../src/server/executors/slurm/queue.js';
import { minutesFor } from '../../../../src/server/executors/slurm/queued-job.js';

const line = (id: number, rest: string) => `${id}|PENDING|7||1:00:00|Priority|${rest}`;
const row = { state: 'PENDING', priority: 7, node: '', timeLimit: '1:00:00', reason: 'Priority' };

test('the jobs in a queue are those of this service, by their directories', () => {
  const answer = [
    line(1, 'remote-app-0123456789ab|/data/jobs/a|b'),
    line(2, 'somebody|/home/x'),
    '3_4|RUNNING|7|n1|1:00:00|None|remote-app-abcdef012345|/data',
    '5|RUNNING|9|gpu[1-2]|UNLIMITED|None|remote-app-abcdef012345|/data/jobs/c',
    'slurm_load_jobs error: Unable to contact slurm controller',
    '',
  ].join('\n');
  expect(parseRows(answer)).toEqual([
    { ...row, id: 1, jobId: '0123456789ab', directory: '/data/jobs/a|b' },
    {
      id: 5,
      state: 'RUNNING',
      priority: 9,
      node: 'gpu[1-2]',
      timeLimit: 'UNLIMITED',
      reason: 'None',
      jobId: 'abcdef012345',
      directory: '/data/jobs/c',
    },
  ]);
});

test('a state that nobody knows counts as running', () => {
  const phases = {
    PENDING: 'waiting',
    REQUEUED: 'waiting',
    CONFIGURING: 'active',
    RUNNING: 'active',
    SUSPENDED: 'active',
  };
  const ended = ['COMPLETED', 'CANCELLED', 'FAILED', 'TIMEOUT', 'NODE_FAIL', 'PREEMPTED', 'OUT_OF_MEMORY'];
  for (const [state, phase] of Object.entries(phases))
    expect([state, phaseOf({ state })]).toEqual([state, phase]);
  for (const state of ended) expect([state, phaseOf({ state })]).toEqual([state, 'ended']);
});

test.for([
  ['', 'Slurm to start it'],
  ['None', 'Slurm to start it'],
  ['Priority', 'jobs before it in the queue of the cluster (Slurm: Priority)'],
  ['Resources,Reserved', 'free resources of the cluster (Slurm: Resources,Reserved)'],
  ['QOSMaxJobsPerUserLimit', 'its turn under a limit of the cluster (Slurm: QOSMaxJobsPerUserLimit)'],
  ['AssocGrpGRES', 'its turn under a limit of the cluster (Slurm: AssocGrpGRES)'],
  ['SomethingNew', 'Slurm to start it (Slurm: SomethingNew)'],
] as const)('%j is a reason to wait for %s', ([reason, words]) => {
  expect(waitingWords(reason)).toBe(words);
});

test.for([
  [null, 60, null],
  [60_000, null, 4],
  [60_001, null, 5],
  [3_600_000, 61.5, 61],
  [3_600_000, 120, 63],
] as const)(
  'a limit of %s ms on a partition of %s minutes is one of %s minutes in Slurm',
  ([limit, most, minutes]) => {
    expect(minutesFor(limit, most)).toBe(minutes);
  },
);

test('the queue is asked once for all who wait, and tells of a failure until it answers again', async () => {
  const answers: ((value: string | Error) => void)[] = [];
  const asked: (readonly string[])[] = [];
  const queue = new JobQueue(async (words) => {
    asked.push(words);
    const answer = await new Promise<string | Error>((resolve) => answers.push(resolve));
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const stop = queue.follow();
  onTestFinished(stop);
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
