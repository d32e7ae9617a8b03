import path from 'node:path';
import { shellApp } from '../support/apps.mjs';
import { BareServer } from '../support/bare.mjs';
import { curl } from '../support/command.mjs';
import { GiB, randomFile } from '../support/data.mjs';
import { submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

/** Both answer with the same file, which curl drops: what is measured is the sending. */
async function measure({ workshop, rounds }, scale) {
  const env = { BENCH_DATA: await randomFile(workshop, GiB * scale) };
  const app = await shellApp(workshop, 'link', 'ln "$BENCH_DATA" "$output/volume.bin"');
  const server = await Server.start(workshop, { apps: [app], env });
  try {
    const { job_id } = await submit(server, 'link');
    await server.ended(job_id);
    const bare = await BareServer.start(workshop, path.join(server.jobDirectory(job_id), 'result.zip'));
    const receive = async ({ pid }, url) => {
      const before = cpuSeconds(pid);
      const { seconds } = await curl(workshop, ['--output', '/dev/null', url]);
      return { seconds, cpu: cpuSeconds(pid) - before };
    };
    const sides = {
      figure: () => receive(server, `${server.url}/jobs/${job_id}/result`),
      yardstick: () => receive(bare, bare.url),
    };
    await interleave(1, sides);
    // A second each: the ratio of two short times needs more of them.
    const { figure, yardstick } = await interleave(rounds + 2, sides);
    const memory = [peakMemory(server.pid), peakMemory(bare.pid)];
    await bare.stop();
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [figure.cpu, yardstick.cpu],
      memory,
    };
  } finally {
    await server.stop();
  }
}

export const rows = [
  {
    name: 'download',
    what: 'result download, 1 GiB, by curl',
    yardstick: 'curl from a bare Node server, the same file',
    unit: 's',
    reach: times(1.1),
    grows: true,
    measure,
  },
];
