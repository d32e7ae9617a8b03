import { fileURLToPath } from 'node:url';
import { shellApp } from '../support/apps.mjs';
import { submit } from '../support/http.mjs';
import { samplesOf } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';

const names = ['liver', 'brain', 'lungs'];
const jobsOfEach = 10;

const imitations = fileURLToPath(new URL('../../test/fixtures/bin', import.meta.url));
const hardware = { PATH: `${imitations}:${process.env.PATH}`, FAKE_GPUS: '1', FAKE_GPU_MEMORY: '24576' };

async function measure({ workshop }) {
  const resources = { gpu: 'required', gpu_memory: '7GiB' };
  const apps = await Promise.all(names.map((name) => shellApp(workshop, name, 'sleep 2', { resources })));
  /** Milliseconds until all jobs have ended. */
  const makespan = async (flags) => {
    const server = await Server.start(workshop, { apps, flags, env: hardware });
    try {
      const startedAt = performance.now();
      const jobs = Array.from({ length: jobsOfEach }, () => names).flat();
      await Promise.all(jobs.map((name) => submit(server, name, undefined, {})));
      await server.quiet();
      return performance.now() - startedAt;
    } finally {
      await server.stop();
    }
  };
  // One that counts: both take a minute and a half.
  const { figure, yardstick } = await samplesOf(1, {
    figure: () => makespan(['--share-gpus']),
    yardstick: () => makespan([]),
  });
  return { figure: figure[0], yardstick: yardstick[0] };
}

export const rows = [
  {
    name: 'shared-gpu',
    what: `three apps of 7 GiB, ${jobsOfEach} jobs of 2 s each, on a GPU of 24 GiB with --share-gpus`,
    yardstick: 'the same jobs without it',
    unit: 'ms',
    reach: times(0.4),
    measure,
  },
];
