import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { unknownUsage } from '../../../../src/runner/index.js';
import type { SlurmContext } from '../../../../src/server/executors/slurm/context.js';
import { JobQueue } from '../../../../src/server/executors/slurm/queue.js';
import { RunFollower } from '../../../../src/server/executors/slurm/run-follower.js';
import { temporary } from '../../../support/temporary.js';

test.for([
  ['an answer of squeue from before its start lists it as waiting', 'before', []],
  ['Slurm has queued it again', 'after', [[17]]],
] as const)('A finished job is cancelled only if it is in the queue: %s', async ([, when, cancelled]) => {
  await using root = await temporary();
  const directory = { id: '0123456789ab', path: path.join(root.path, '0123456789ab') };
  mkdirSync(directory.path);
  const row = `17|PENDING|1||1:00|Resources|remote-app-${directory.id}|${directory.path}\n`;
  const queue = new JobQueue(() => Promise.resolve(row));
  const asked: (readonly number[])[] = [];
  const slurm = { cancel: async (ids: readonly number[]) => void (ids.length > 0 && asked.push(ids)) };
  const context = { queue, slurm } as unknown as SlurmContext;
  if (when === 'before') await queue.refresh();
  const follower = new RunFollower({ directory, timeLimit: null }, context, 17);
  if (when === 'after') await queue.refresh();
  const end = {
    exitCode: 0,
    signal: null,
    error: null,
    fault: null,
    lostLines: 0,
    ...unknownUsage,
    wasAlone: false,
  };
  writeFileSync(
    path.join(directory.path, 'exit.json'),
    JSON.stringify({ ...end, endedAt: new Date().toISOString() }),
  );
  expect(await follower.ended()).toMatchObject({ exitCode: 0 });
  expect(asked).toEqual(cancelled);
});
