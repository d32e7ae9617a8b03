#!/usr/bin/env node
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { SlurmCluster } from '../support/slurm/cluster.mjs';
import { cpuNodes, gpuNodes } from '../support/slurm/configuration.mjs';

const usage = `Starts a Slurm cluster of two nodes on this machine, until Ctrl-C. Needs root, and Debian's slurm-wlm and munge.

node test/slurm/cluster.mjs [--no-gpus] [--setting NAME=VALUE]...

  --no-gpus   nodes without GPUs; by default each has two, of type a100
  --setting   a line of slurm.conf, in place of the cluster's own`;

const { values } = parseArgs({
  options: {
    'no-gpus': { type: 'boolean', default: false },
    setting: { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

if (values.help) {
  console.log(usage);
} else {
  const asked = Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map((name) => once(process, name)));
  const nodes = values['no-gpus'] ? cpuNodes : gpuNodes;
  const cluster = await SlurmCluster.start({ nodes, settings: values.setting });
  const alive = setInterval(() => {}, 1 << 30);
  try {
    console.log(`export SLURM_CONF=${cluster.environment.SLURM_CONF}`);
    console.error(`Its nodes share ${cluster.shared}. Ctrl-C stops it.`);
    await asked;
  } finally {
    clearInterval(alive);
    await cluster.stop();
  }
}
