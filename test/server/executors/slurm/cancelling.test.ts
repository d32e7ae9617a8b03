import { expect, test } from 'vitest';
import { cancelUnstarted, type SlurmContext } from '../../../../src/server/executors/slurm/context.js';

/** What squeue tells of a job, one call after the other: that it waits, that it is not there, or nothing, since it fails. */
type Answer = 'waits' | 'gone' | 'fails';

/** Cancels a job on a cluster whose squeue answers like this. @returns how often it was asked, and what was cancelled */
async function cancel(...answers: readonly Answer[]) {
  const cancelled: number[] = [];
  let asked = 0;
  let rows: readonly object[] = [];
  const queue = {
    problem: null as string | null,
    follow: () => ({ [Symbol.dispose]: () => {} }),
    refresh: async () => {
      const answer = answers[asked++];
      queue.problem = answer === 'fails' ? 'squeue: Unable to contact slurm controller' : null;
      if (answer !== 'fails') rows = answer === 'waits' ? [{ id: 17, state: 'PENDING' }] : [];
    },
    rowsOf: () => rows,
  };
  const slurm = { cancel: async (ids: readonly number[]) => void cancelled.push(...ids) };
  await cancelUnstarted('/jobs/0123456789ab', { queue, slurm, killGrace: 0 } as unknown as SlurmContext);
  return { asked, cancelled };
}

test('A job counts as cancelled once squeue no longer lists it, and not while squeue fails', async () => {
  expect(await cancel('fails', 'fails', 'waits', 'gone')).toEqual({ asked: 4, cancelled: [17] });
  expect(await cancel('waits', 'fails', 'gone')).toEqual({ asked: 3, cancelled: [17] });
  expect(await cancel('gone')).toEqual({ asked: 1, cancelled: [] });
});
