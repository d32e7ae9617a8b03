import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { SlurmExecutor } from '../../src/server/executors/slurm/slurm-executor.js';
import { executorContract } from '../server/executors/contract.js';
import { Bench, Followed, type Subject } from '../server/executors/support.js';
import { argumentsOf, runningProcesses } from '../support/processes.mjs';
import { SlurmCluster } from '../support/slurm/cluster.mjs';

const program = (name: string) => fileURLToPath(new URL(`../../dist/runner/${name}.js`, import.meta.url));

let cluster: SlurmCluster;

beforeAll(async () => {
  cluster = await SlurmCluster.start({
    nodes: [
      { name: 'n1', cpus: 1 },
      { name: 'n2', cpus: 4, gpus: 2, gpuType: 'a100' },
    ],
    partitions: [
      { name: 'all', settings: 'Default=YES' },
      { name: 'cpu', nodes: 'n1' },
      { name: 'gpu', nodes: 'n2' },
    ],
  });
});
afterAll(() => cluster?.stop());
beforeEach(async () => {
  cluster.output(['scancel', '--user=root']);
  await cluster.idle();
});

/** A configuration of a controller that nobody has started. */
function deadConfiguration(): string {
  const file = path.join(mkdtempSync(path.join(cluster.directory, 'dead-')), 'slurm.conf');
  const text = readFileSync(cluster.environment.SLURM_CONF, 'utf8');
  writeFileSync(file, text.replace(/^SlurmctldPort=.*$/m, 'SlurmctldPort=1').concat('MessageTimeout=1\n'));
  return file;
}

/** The executor of the cluster, whose jobs of the CPU have a node with one core, so that they run one after the other. */
async function executorOf(gpus: number | null, killGrace: number): Promise<SlurmExecutor> {
  const configuration = gpus === null ? deadConfiguration() : cluster.environment.SLURM_CONF;
  const partition = gpus === 0 ? 'cpu' : 'gpu';
  const executor = new SlurmExecutor({
    options: { partition, account: null, qos: null, time: null, constraint: null, args: [] },
    environment: { ...process.env, SLURM_CONF: configuration },
    passEnvironment: [],
    killGrace,
    maxLogBytes: 1 << 20,
    maxGpus: () => null,
    maxJobs: () => null,
    report: () => {},
  });
  await executor.start();
  return executor;
}

const subject: Subject = {
  isCluster: true,
  make: (gpus = 0) => executorOf(gpus, 300),
  lose: (directory) => {
    const isRunner = (pid: number) => {
      const [, name = '', of] = argumentsOf(pid);
      return name === program('main') && of === directory;
    };
    for (const pid of runningProcesses().filter(isRunner)) process.kill(pid, 'SIGKILL');
  },
};

executorContract('The executor of a Slurm cluster', subject);

test('A job that does not end at its time limit does not hold up the server', async () => {
  await using bench = await Bench.open({ ...subject, make: () => executorOf(0, 4000) });
  const executor = await bench.executor();
  const job = bench.job();
  const script = 'trap "echo asked" TERM; while :; do sleep 0.1; done';
  const run = new Followed(executor.run(job.order(script, { timeLimit: 1000 })));
  await job.prints('asked');
  // It has its grace, and there is time for other things.
  expect(existsSync(path.join(job.path, 'exit.json'))).toBe(false);
  expect(await run.ended).toMatchObject({ signal: 'SIGKILL', fault: 'timeLimit' });
});
