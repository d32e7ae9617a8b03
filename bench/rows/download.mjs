import path from 'node:path';
import { GiB, randomFile } from '../support/data.mjs';
import { times } from '../support/reach.mjs';
import { againstBare } from '../support/receive.mjs';

/** Both answer with the same file, which curl discards, so that only the sending is measured. */
async function measure(bench) {
  const env = { BENCH_DATA: await randomFile(bench.workshop, GiB) };
  const script = 'ln "$BENCH_DATA" "$output/volume.bin"';
  return againstBare(bench, { script, env }, (server, id) => ({
    path: `/jobs/${id}/result`,
    file: path.join(server.jobDirectory(id), 'result.zip'),
    output: '/dev/null',
  }));
}

export const rows = [
  {
    name: 'download',
    what: 'result download, 1 GiB, by curl',
    yardstick: 'curl from a bare Node server, the same file',
    unit: 's',
    reach: times(1.5),
    measure,
  },
];
