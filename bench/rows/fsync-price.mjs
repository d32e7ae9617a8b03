import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { nodeApp } from '../support/apps.mjs';
import { logToEnd, submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { nothing } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

const preload = fileURLToPath(new URL('../programs/without-fsync.mjs', import.meta.url));
const loaded = { NODE_OPTIONS: `--import=${preload}` };
const jobs = 40;

/** A directory with a `sync` that does nothing. */
async function withoutSync(workshop) {
  const directory = await workshop.directory('no-sync');
  writeFileSync(path.join(directory, 'sync'), '#!/bin/sh\n', { mode: 0o755 });
  return { ...loaded, PATH: `${directory}:${process.env.PATH}`, BENCH_FSYNC: 'off' };
}

/** Runs jobs one after the other, so that the time of each sync counts. */
async function oneByOne(server) {
  const startedAt = performance.now();
  for (let number = 0; number < jobs; number += 1) {
    const { job_id } = await submit(server, 'hello');
    await logToEnd(server, job_id);
  }
  return { seconds: (performance.now() - startedAt) / 1000 };
}

async function measure({ workshop, rounds }) {
  const app = await nodeApp(workshop, 'hello', "console.log('a line');");
  const durable = await Server.start(workshop, { apps: [app], env: loaded });
  const hasty = await Server.start(workshop, { apps: [app], env: await withoutSync(workshop) });
  try {
    await oneByOne(durable);
    await oneByOne(hasty);
    const before = cpuSeconds(durable.pid);
    const { figure, yardstick } = await interleave(rounds, {
      figure: () => oneByOne(durable),
      yardstick: () => oneByOne(hasty),
    });
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [(cpuSeconds(durable.pid) - before) / rounds],
      memory: [peakMemory(durable.pid), peakMemory(hasty.pid)],
    };
  } finally {
    await durable.stop();
    await hasty.stop();
  }
}

export const rows = [
  {
    name: 'fsync-price',
    what: '40 trivial jobs, one after the other, that would each survive a power cut',
    yardstick: 'the same with every fsync left out',
    unit: 's',
    reach: nothing,
    measure,
  },
];
