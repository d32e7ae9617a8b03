import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { executorContract } from './contract.js';
import { fullDiskContract } from './full-disk-contract.js';
import { localSubject } from './local-subject.js';
import { Bench, Followed } from './support.js';

const local = localSubject();

executorContract('the local executor', local);
fullDiskContract('the local executor', local);

test('the local executor reads the end that an older runner wrote', async () => {
  await using bench = await Bench.open(local);
  const job = bench.job();
  const older = { exitCode: null, signal: 'SIGKILL', error: null, endedAt: '2026-01-01T00:00:00.000Z' };
  writeFileSync(path.join(job.path, 'exit.json'), JSON.stringify(older));
  const grant = { gpus: [], gpuUuids: [], cpuSlots: 1 };
  const run = new Followed((await bench.executor()).run(job.order('exit 0', { isAccepted: true, grant })));
  expect(await run.ended).toEqual({
    kind: 'ended',
    exitCode: 137,
    signal: 'SIGKILL',
    fault: 'outOfMemory',
    error: null,
    lostLines: 0,
  });
});

test('the local executor kills a runner that does not exit after the end of its job', async () => {
  const program = fileURLToPath(new URL('../../fixtures/programs/runner/main.js', import.meta.url));
  await using bench = await Bench.open(localSubject({ program }));
  const executor = await bench.executor();
  const job = bench.job();
  expect(await new Followed(executor.run(job.order('echo ran'))).ended).toMatchObject({ exitCode: 7 });
  expect(job.processes()).toEqual([]);
}, 30_000);
