import path from 'node:path';
import { shellApp } from '../support/apps.mjs';
import { GiB, randomFile } from '../support/data.mjs';
import { submit } from '../support/http.mjs';
import { times } from '../support/reach.mjs';
import { receiveByTurns } from '../support/receive.mjs';
import { Server } from '../support/server.mjs';

/** Both answer with the same file, which curl drops: what is measured is the sending. */
async function measure({ workshop, rounds }, scale) {
  const env = { BENCH_DATA: await randomFile(workshop, GiB * scale) };
  const app = await shellApp(workshop, 'link', 'ln "$BENCH_DATA" "$output/volume.bin"');
  const server = await Server.start(workshop, { apps: [app], env });
  try {
    const { job_id } = await submit(server, 'link');
    await server.ended(job_id);
    return await receiveByTurns(workshop, server, {
      path: `/jobs/${job_id}/result`,
      file: path.join(server.jobDirectory(job_id), 'result.zip'),
      output: '/dev/null',
      rounds,
    });
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
