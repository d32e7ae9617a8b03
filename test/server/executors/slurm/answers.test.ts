import { describe, expect, test } from 'vitest';
import { parseRows, phaseOf, waitingWords } from '../../../../src/server/executors/slurm/queue.js';
import { causeBySlurm } from '../../../../src/server/executors/slurm/run-follower.js';

describe('the answer of squeue', () => {
  test('The answer of squeue lists the jobs of this service, whatever the names of their directories', () => {
    const answer = [
      '12|RUNNING|4294901759|n1|1:00:00|None|remote-app-0123456789ab|/data/a b|c/jobs/0123456789ab',
      '13|PENDING|7||UNLIMITED|ReqNodeNotAvail, UnavailableNodes:n[1-2]|remote-app-ba9876543210|/data/jobs/ba9876543210',
      '',
    ].join('\n');
    expect(parseRows(answer)).toEqual([
      {
        id: 12,
        state: 'RUNNING',
        priority: 4294901759,
        node: 'n1',
        timeLimit: '1:00:00',
        reason: 'None',
        jobId: '0123456789ab',
        directory: '/data/a b|c/jobs/0123456789ab',
      },
      {
        id: 13,
        state: 'PENDING',
        priority: 7,
        node: '',
        timeLimit: 'UNLIMITED',
        reason: 'ReqNodeNotAvail, UnavailableNodes:n[1-2]',
        jobId: 'ba9876543210',
        directory: '/data/jobs/ba9876543210',
      },
    ]);
  });

  test.for([
    ['another job of this user', '14|RUNNING|1|n1|1:00|None|train|/home/ana'],
    ['a job whose name imitates a line', '15|RUNNING|1|n1|1:00|None|x|16|RUNNING|remote-app-|/home/ana'],
    ['an array', '16_3|RUNNING|1|n1|1:00|None|remote-app-0123456789ab|/data'],
    ['a line that is not of squeue', 'slurm_load_jobs error: Invalid job id'],
  ] as const)('The answer of squeue does not list %s', ([, line]) => {
    expect(parseRows(line)).toEqual([]);
  });

  test.for([
    ['PENDING', 'waiting'],
    ['REQUEUE_HOLD', 'waiting'],
    ['RUNNING', 'active'],
    ['COMPLETING', 'active'],
    ['SUSPENDED', 'active'],
    ['A_STATE_OF_NEXT_YEAR', 'active'],
    ['OUT_OF_MEMORY', 'ended'],
    ['NODE_FAIL', 'ended'],
  ] as const)('The answer of squeue has state %s, which is %s', ([state, phase]) => {
    expect(phaseOf({ state })).toBe(phase);
  });
});

describe('a reason of Slurm', () => {
  test.for([
    ['None', 'Slurm to start it'],
    ['Resources', 'free resources of the cluster (Slurm: Resources)'],
    ['QOSMaxGRESPerUser', 'its turn under a limit of the cluster (Slurm: QOSMaxGRESPerUser)'],
    ['AssocGrpCpuLimit', 'its turn under a limit of the cluster (Slurm: AssocGrpCpuLimit)'],
    ['ReqNodeNotAvail, Reserved', 'Slurm to start it (Slurm: ReqNodeNotAvail, Reserved)'],
  ] as const)('%s follows "Waiting for"', ([reason, words]) => {
    expect(waitingWords(reason)).toBe(words);
  });
});

describe('a Slurm state that ends a job', () => {
  const end = { id: 12, state: 'COMPLETED', node: 'n1', timeLimit: '1:00:00', isRequeued: false };
  const states = ['CANCELLED', 'TIMEOUT', 'DEADLINE', 'OUT_OF_MEMORY', 'NODE_FAIL', 'BOOT_FAIL', 'PREEMPTED'];

  test('Each Slurm state that ends a job is explained by its own sentence', () => {
    const requeued = causeBySlurm({ ...end, state: 'PENDING', isRequeued: true });
    const told = [...states.map((state) => causeBySlurm({ ...end, state })), requeued];
    expect(told).not.toContain(null);
    expect(new Set(told.map((each) => each?.error)).size).toBe(states.length + 1);
  });

  test('The explanation of a Slurm state names the node and the limit that was exceeded', () => {
    expect(causeBySlurm({ ...end, state: 'NODE_FAIL' })?.error).toContain('on node n1');
    expect(causeBySlurm({ ...end, state: 'TIMEOUT' })?.error).toContain('1:00:00');
    expect(causeBySlurm({ ...end, state: 'OUT_OF_MEMORY' })).toMatchObject({ fault: 'outOfMemory' });
  });

  test.for([['COMPLETED'], ['FAILED'], [null]])(
    'No explanation follows from the Slurm state %s',
    ([state]) => {
      expect(causeBySlurm({ ...end, state: state ?? null })).toBeNull();
    },
  );
});
