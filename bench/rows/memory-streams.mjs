import { once } from 'node:events';
import { link, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { shellApp } from '../support/apps.mjs';
import { logFile } from '../support/data.mjs';
import { finishedJobs } from '../support/finished-jobs.mjs';
import { ask, send } from '../support/http.mjs';
import { plus } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory, residentMemory } from '../support/usage.mjs';

/** Lines of each log: 6 MB, far more than the sockets between the two take. */
const lines = 100_000;

/**
 * Opens a stream of every job, leaves them unread for a while, then reads all to the end: slow readers and fast
 * ones in one go. The jobs have ended, for 200 that run would need a larger machine.
 */
async function measure({ workshop }) {
  const count = 200;
  const app = await shellApp(workshop, 'nothing', ':');
  const dataDirectory = await finishedJobs(workshop, app, count);
  const log = await logFile(workshop, lines);
  const server = await Server.start(workshop, { apps: [app], dataDirectory, flags: ['--grace', '86400'] });
  try {
    const { jobs } = await ask(server, '/jobs');
    for (const { job_id } of jobs) {
      const file = path.join(server.jobDirectory(job_id), 'log');
      await rm(file);
      await link(log, file);
    }
    await delay(1000);
    const idle = residentMemory(server.pid);
    const before = cpuSeconds(server.pid);
    const streams = await Promise.all(
      jobs.map(({ job_id }) => send(`${server.url}/jobs/${job_id}/logs`, { agent: false })),
    );
    await delay(2000);
    const stalled = peakMemory(server.pid);
    await Promise.all(
      streams.map(async (stream) => {
        stream.resume();
        await once(stream, 'end');
      }),
    );
    return {
      figure: peakMemory(server.pid),
      yardstick: idle,
      cpu: [cpuSeconds(server.pid) - before],
      note: `${stalled.toFixed(0)} MiB while nobody reads`,
    };
  } finally {
    await server.stop();
  }
}

export const rows = [
  {
    name: 'memory-server-streams',
    what: 'server memory, 200 log streams, first unread, then read at full speed',
    yardstick: 'its own, idle',
    unit: 'MiB',
    reach: plus(96, 'MiB'),
    measure,
  },
];
