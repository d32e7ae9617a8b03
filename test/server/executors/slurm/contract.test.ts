import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';
import { SlurmExecutor } from '../../../../src/server/executors/slurm/slurm-executor.js';
import { argumentsOf, runningProcesses } from '../../../support/processes.mjs';
import { ScriptedCluster } from '../../../support/slurm/scripted-cluster.js';
import { executorContract } from '../contract.js';
import type { Subject } from '../support.js';

const runner = fileURLToPath(new URL('../../../../dist/runner/main.js', import.meta.url));
let cluster: ScriptedCluster | null = null;
let directory = '';

afterEach(() => {
  cluster?.close();
  cluster = null;
  rmSync(directory, { recursive: true, force: true });
});

/** The executor of a scripted cluster, which is the same one for all executors of a test. */
const subject: Subject = {
  isCluster: true,
  make: async (gpus = 0) => {
    if (cluster === null) {
      directory = mkdtempSync(path.join(tmpdir(), 'remote-app-slurm-'));
      cluster = new ScriptedCluster(directory, gpus ?? 0);
      if (gpus === null) {
        const failing = '#!/bin/sh\necho "slurm_load: Unable to contact slurm controller" >&2; exit 1\n';
        for (const name of ['sinfo', 'squeue']) {
          writeFileSync(path.join(directory, 'bin', name), failing);
          chmodSync(path.join(directory, 'bin', name), 0o755);
        }
      }
    }
    const executor = new SlurmExecutor({
      options: { partition: null, account: null, qos: null, time: null, constraint: null, args: [] },
      environment: cluster.environment,
      passEnvironment: ['SCRIPTED_SLURM'],
      killGrace: 300,
      maxLogBytes: 1 << 20,
      maxGpus: () => null,
      maxJobs: () => null,
      report: () => {},
    });
    await executor.start();
    return executor;
  },
  lose: (job) => {
    const isRunner = (pid: number) => {
      const [, name = '', of] = argumentsOf(pid);
      return name === runner && of === job;
    };
    for (const pid of runningProcesses().filter(isRunner)) process.kill(pid, 'SIGKILL');
  },
};

executorContract('The executor of a scripted Slurm cluster', subject);
