import { rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { shellApp } from '../support/apps.mjs';
import { run } from '../support/command.mjs';
import { GiB, randomFile, volumeFile } from '../support/data.mjs';
import { logLines, submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

/** Runs a job whose output is `data`, and measures from the end of the app to the marker that ends its log. */
async function packed(server, app) {
  const before = cpuSeconds(server.pid);
  const { job_id } = await submit(server, app);
  let endedAt = Number.NaN;
  let last = '';
  for await (last of logLines(server, job_id)) {
    if (last.startsWith('app ends at ')) endedAt = Number(last.slice(12));
  }
  const seconds = (performance.timeOrigin + performance.now()) / 1000 - endedAt;
  if (last !== '__DONE__') throw new Error(`Job ${job_id} ended with: ${last}`);
  const cpu = cpuSeconds(server.pid) - before;
  const { size } = await stat(path.join(server.jobDirectory(job_id), 'result.zip'));
  return { seconds, cpu, size };
}

async function compare({ workshop, rounds }, file, reference) {
  // A link, because the time in which an app writes its output does not belong to the service.
  const app = await shellApp(
    workshop,
    'link',
    'ln "$BENCH_DATA" "$output/volume.raw"\necho "app ends at $(date +%s.%N)"',
  );
  const server = await Server.start(workshop, {
    apps: [app],
    env: { BENCH_DATA: file },
    // Two seconds are enough to look at the archive; then it is removed, to free the disk for the next one.
    flags: ['--grace', '2'],
  });
  try {
    const copy = path.join(workshop.root, 'packed');
    return await interleave(rounds, {
      figure: async () => {
        const sample = await packed(server, 'link');
        await server.emptied();
        return { ...sample, memory: peakMemory(server.pid) };
      },
      yardstick: async () => {
        const { seconds, cpu } = await run(workshop, ...reference(file, copy));
        const { size } = await stat(copy);
        await rm(copy);
        return { seconds, cpu, size };
      },
    });
  } finally {
    await server.stop();
  }
}

const result = ({ figure, yardstick }) => ({
  figure: figure.seconds,
  yardstick: yardstick.seconds,
  cpu: [figure.cpu, yardstick.cpu],
  memory: [figure.memory],
});

async function measureStored(bench) {
  const file = await randomFile(bench.workshop, GiB);
  const samples = await compare(bench, file, (from, to) => [
    'sh',
    ['-c', 'cp "$0" "$1" && sync "$1"', from, to],
  ]);
  return result(samples);
}

async function measureDeflated(bench) {
  const file = await volumeFile(bench.workshop, GiB);
  const samples = await compare(bench, file, (from, to) => [
    'sh',
    ['-c', 'zip -1qj - "$0" > "$1" && sync "$1"', from, to],
  ]);
  const { figure, yardstick } = samples;
  const share = (bytes) => ((100 * bytes) / GiB).toFixed(1);
  return {
    ...result(samples),
    fault: figure.size > yardstick.size ? 'the archive is larger than that of zip' : null,
    note: `the archive has ${share(figure.size)} % of the file, that of zip -1 ${share(yardstick.size)} %`,
  };
}

export const rows = [
  {
    name: 'pack-stored',
    what: 'end of app to result ready, 1 GiB that is compressed already',
    yardstick: 'cp and sync of it',
    unit: 's',
    reach: times(3),
    measure: measureStored,
  },
  {
    name: 'pack-deflated',
    what: 'end of app to result ready, 1 GiB of 16-bit raw volume, no larger',
    yardstick: 'zip -1 and sync of it',
    unit: 's',
    reach: times(3),
    tools: ['zip'],
    measure: measureDeflated,
  },
];
