import { shellApp } from '../support/apps.mjs';
import { run } from '../support/command.mjs';
import { finishedJobs } from '../support/finished-jobs.mjs';
import { ask } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { nothing, times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, residentMemory } from '../support/usage.mjs';

const grace = ['--grace', '86400'];

/** From the start of the process to the first answer. */
async function started(workshop, options) {
  const startedAt = performance.now();
  const server = await Server.start(workshop, { ...options, flags: grace });
  await ask(server, '/health');
  const milliseconds = performance.now() - startedAt;
  const sample = { milliseconds, cpu: cpuSeconds(server.pid), memory: residentMemory(server.pid) };
  await server.stop();
  return sample;
}

async function measureEmpty({ workshop, rounds }) {
  const apps = [await shellApp(workshop, 'nothing', ':')];
  const { figure, yardstick } = await interleave(rounds * 3, {
    figure: () => started(workshop, { apps }),
    yardstick: () => run(workshop, process.execPath, ['-e', '0']),
  });
  return {
    figure: figure.milliseconds,
    yardstick: yardstick.seconds * 1000,
    cpu: [figure.cpu, yardstick.cpu],
    memory: [figure.memory],
  };
}

async function measureFull({ workshop, rounds }) {
  const app = await shellApp(workshop, 'nothing', ':');
  const dataDirectory = await finishedJobs(workshop, app, 1000);
  const { figure, yardstick } = await interleave(rounds * 2, {
    figure: () => started(workshop, { apps: [app], dataDirectory }),
    yardstick: () => started(workshop, { apps: [app] }),
  });
  return {
    figure: figure.milliseconds,
    yardstick: yardstick.milliseconds,
    cpu: [figure.cpu, yardstick.cpu],
    memory: [figure.memory, yardstick.memory],
  };
}

export const rows = [
  {
    name: 'serve-start',
    what: 'serve, from start to first answer, no jobs on disk',
    yardstick: 'node -e 0',
    unit: 'ms',
    reach: times(12),
    measure: measureEmpty,
  },
  {
    name: 'serve-start-full',
    what: 'serve, from start to first answer, 1,000 finished jobs on disk',
    yardstick: 'the same without jobs',
    unit: 'ms',
    reach: nothing,
    measure: measureFull,
  },
];
