import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { LocalExecutor } from '../../../src/server/executors/local/index.js';
import { apps } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { localSubject } from '../executors/local-subject.js';
import { Bench, Followed } from '../executors/support.js';

const main = path.join(apps.resident, 'main.mjs');
const program = fileURLToPath(new URL('../../../dist/runner/worker-host-main.js', import.meta.url));

test('When memory is short, the app that has been idle longest ends', async () => {
  await using root = await temporary();
  let use = 0.5;
  const workers = { directory: path.join(root.path, 'workers'), idle: 60_000, memoryUse: () => use, program };
  await using bench = await Bench.open(localSubject({ workers }));
  const executor = (await bench.executor()) as LocalExecutor;
  const run = async (name: string) => {
    const job = bench.job();
    const words = ['infer', 'app', '--output', job.output];
    const order = job.order('', {
      command: () => ['node', main, ...words],
      resident: () => ({
        name,
        command: ['node', main, 'resident', name],
        programWords: 2,
        watched: [],
        isShared: false,
        access: () => ({ network: false, directories: [], environment: {} }),
      }),
    });
    const followed = new Followed(executor.run(order));
    expect(await followed.ended).toMatchObject({ exitCode: 0, error: null });
  };
  const loaded = () => executor.workers().map(({ name }) => name);
  try {
    await run('one');
    await run('two');
    await run('one');
    expect(loaded().sort()).toEqual(['one', 'two']);
    use = 0.95;
    await run('three');
    await until('the longest idle has left', () => !loaded().includes('two'));
    expect(loaded()).toContain('three');
  } finally {
    use = 0.5;
    await executor.close();
  }
  expect(loaded()).toEqual([]);
});
