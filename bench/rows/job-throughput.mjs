import { once } from 'node:events';
import path from 'node:path';
import { nodeApp } from '../support/apps.mjs';
import { logToEnd, submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, cpuSecondsOfChildren, peakMemory } from '../support/usage.mjs';

const atOnce = 8;

/** Runs `task` so many times, eight at a time. */
async function eightAtATime(count, task) {
  let left = count;
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left > 0) {
        left -= 1;
        await task();
      }
    }),
  );
  return (performance.now() - startedAt) / 1000;
}

/** A job counts when its log has ended, which means that its result is ready. */
async function measure({ workshop, rounds }) {
  const count = 200;
  const app = await nodeApp(workshop, 'hello', "console.log('a line');");
  const server = await Server.start(workshop, { apps: [app], flags: ['--cpu-slots', String(atOnce)] });
  const throughServer = async () => {
    const { job_id } = await submit(server, 'hello');
    const lines = await logToEnd(server, job_id);
    if (!lines.includes('a line')) throw new Error(`Job ${job_id} has lost its line`);
  };
  const direct = async () => {
    const child = workshop.start(process.execPath, [path.join(app, 'main.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.resume();
    await once(child, 'close');
  };
  try {
    await eightAtATime(atOnce, throughServer);
    const { figure, yardstick } = await interleave(rounds, {
      figure: async () => {
        const before = cpuSeconds(server.pid);
        const seconds = await eightAtATime(count, throughServer);
        return { seconds, cpu: cpuSeconds(server.pid) - before };
      },
      yardstick: async () => {
        const before = cpuSecondsOfChildren();
        const seconds = await eightAtATime(count, direct);
        return { seconds, cpu: cpuSecondsOfChildren() - before };
      },
    });
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [figure.cpu, yardstick.cpu],
      memory: [peakMemory(server.pid)],
    };
  } finally {
    await server.stop();
  }
}

export const rows = [
  {
    name: 'job-throughput',
    what: '200 trivial jobs (a Node app that prints a line), 8 at a time',
    yardstick: 'spawning the app, 8 at a time',
    unit: 's',
    reach: times(3),
    measure,
  },
];
