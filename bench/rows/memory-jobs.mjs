import { open } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { shellApp } from '../support/apps.mjs';
import { run } from '../support/command.mjs';
import { MiB } from '../support/data.mjs';
import { logToEnd, submit } from '../support/http.mjs';
import { plus } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory, residentMemory } from '../support/usage.mjs';

/** Prints a thousand lines, copies its input to its output, and ends when all end. */
const script = `seq -f 'line %.0f' 1000
cp "$input" "$output/volume.bin"
cat "$BENCH_GATE"`;

/** As many jobs as the server accepts, each with its stream; all are submitted at once, and all end at once. */
async function measure({ workshop }, scale) {
  const count = Math.round(32 * scale);
  const gate = path.join(await workshop.directory('gate'), 'fifo');
  await run(workshop, 'mkfifo', [gate]);
  const app = await shellApp(workshop, 'back', script);
  const server = await Server.start(workshop, {
    apps: [app],
    flags: ['--cpu-slots', String(count)],
    env: { BENCH_GATE: gate },
  });
  try {
    await delay(1000);
    const idle = residentMemory(server.pid);
    const before = cpuSeconds(server.pid);
    const content = Buffer.alloc(MiB, 'volume');
    const jobs = await Promise.all(Array.from({ length: count }, () => submit(server, 'back', content)));
    const ended = jobs.map(({ job_id }) => logToEnd(server, job_id));
    await delay(500 + 100 * count);
    const running = peakMemory(server.pid);
    await (await open(gate, 'r+')).close();
    await Promise.all(ended);
    return {
      figure: peakMemory(server.pid),
      yardstick: idle,
      cpu: [cpuSeconds(server.pid) - before],
      note: `${running.toFixed(0)} MiB before the results are packed`,
    };
  } finally {
    await server.stop();
  }
}

export const rows = [
  {
    name: 'memory-server-jobs',
    what: 'server memory, 32 jobs of 1 MiB at once, each with its log stream',
    yardstick: 'its own, idle',
    unit: 'MiB',
    reach: plus(96, 'MiB'),
    grows: true,
    measure,
  },
];
