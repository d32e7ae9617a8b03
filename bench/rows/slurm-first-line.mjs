import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { SlurmCluster } from '../../test/support/slurm/cluster.mjs';
import { whyNoCluster } from '../../test/support/slurm/prerequisites.mjs';
import { until } from '../../test/support/until.mjs';
import { nodeApp } from '../support/apps.mjs';
import { logLines, submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { nothing } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { peakMemory } from '../support/usage.mjs';

const line = 'first line';
const roundsPerRun = 5;
const execute = promisify(execFile);

/** Submits a command by itself; resolves when its first line is in its output file. */
async function bare(cluster, words) {
  const directory = await mkdtemp(path.join(cluster.shared, 'bare-'));
  const script = path.join(directory, 'script');
  const output = path.join(directory, 'output');
  await writeFile(script, `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(' ')}\n`);
  await writeFile(output, '');
  const env = { PATH: process.env.PATH, ...cluster.environment };
  await execute('sbatch', ['--quiet', '--cpus-per-task=1', `--output=${output}`, script], {
    env,
  });
  await until('the first line', () => readFileSync(output, 'utf8').includes('\n'), 30_000, 2);
}

/**
 * Slurm starts what was submitted once a second. Waits until it has just done so, and then for a share of that second:
 * both sides begin at the same moments of it, spread evenly.
 */
async function atMoment(cluster, share) {
  await bare(cluster, ['echo', 'now']);
  await delay(1000 * share);
}

/** Calls `measure` at one moment of the second after the other. */
function spread(cluster, count, measure) {
  let calls = 0;
  return async () => {
    await cluster.idle();
    await atMoment(cluster, (calls % count) / count);
    calls += 1;
    const startedAt = performance.now();
    const after = await measure();
    const milliseconds = performance.now() - startedAt;
    await after?.();
    return { milliseconds };
  };
}

async function throughServer(server) {
  const { job_id } = await submit(server, 'hello');
  for await (const each of logLines(server, job_id)) if (each === line) break;
  return () => server.ended(job_id);
}

async function measure({ workshop, rounds }) {
  const why = whyNoCluster();
  if (why !== null) throw new Error(why);
  const app = await nodeApp(workshop, 'hello', `console.log('${line}');`);
  const cluster = workshop.keep(await SlurmCluster.start());
  try {
    const server = await Server.start(workshop, {
      apps: [app],
      flags: ['--executor', 'slurm'],
      env: cluster.environment,
      dataDirectory: path.join(cluster.shared, 'data'),
    });
    try {
      const count = rounds * roundsPerRun;
      await (await throughServer(server))();
      const { figure, yardstick } = await interleave(count, {
        figure: spread(cluster, count, () => throughServer(server)),
        yardstick: spread(cluster, count, () =>
          bare(cluster, [process.execPath, path.join(app, 'main.mjs')]),
        ),
      });
      return {
        figure: figure.milliseconds,
        yardstick: yardstick.milliseconds,
        memory: [peakMemory(server.pid)],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await cluster.stop();
  }
}

export const rows = [
  {
    name: 'slurm-first-line',
    what: 'submit (1 KiB) to the first line of a Node app on a Slurm cluster of this machine',
    yardstick: 'sbatch of that app there',
    unit: 'ms',
    reach: nothing,
    measure,
  },
];
