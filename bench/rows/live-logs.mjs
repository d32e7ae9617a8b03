import { once } from 'node:events';
import { open, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { shellApp } from '../support/apps.mjs';
import { run } from '../support/command.mjs';
import { submit } from '../support/http.mjs';
import { median, percentile } from '../support/interleave.mjs';
import { atMost } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

const program = (name) => fileURLToPath(new URL(`../programs/${name}.mjs`, import.meta.url));

const linesPerJob = 200_000;

/** What `seq` prints, as the events of a stream. */
async function expectedEvents(workshop) {
  const file = path.join(workshop.root, 'expected-events');
  const lines = Array.from({ length: linesPerJob }, (_, index) => `data: ${lineText(index + 1)}\n\n`);
  await writeFile(file, lines.join(''));
  return file;
}

const format = 'step %06.0f of a long training run, loss 0.0123456789 ok';
const lineText = (number) => format.replace('%06.0f', String(number).padStart(6, '0'));

/** All jobs start to print at once: each waits for the writer of one named pipe. */
async function once50({ workshop }, jobs, expected) {
  const gate = path.join(await workshop.directory('gate'), 'fifo');
  await run(workshop, 'mkfifo', [gate]);
  const app = await shellApp(workshop, 'seq', `cat "$BENCH_GATE"\nseq -f '${format}' ${linesPerJob}`);
  const server = await Server.start(workshop, {
    apps: [app],
    flags: ['--cpu-slots', String(jobs), '--max-jobs', String(jobs)],
    env: { BENCH_GATE: gate },
  });
  try {
    const ids = [];
    for (let count = 0; count < jobs; count += 1) ids.push((await submit(server, 'seq')).job_id);
    const urls = ids.map((id) => `${server.url}/jobs/${id}/logs`);
    const reading = run(workshop, process.execPath, [program('read-streams'), expected, ...urls]);
    // Runners and streams are all there before the first line is printed.
    await delay(500 + 60 * jobs);
    const prober = workshop.start(process.execPath, [program('probe-health'), `${server.url}/health`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const probed = text(prober.stdout);
    await delay(300);
    const before = cpuSeconds(server.pid);
    const startedAt = performance.now();
    await (await open(gate, 'r+')).close();
    const { whole, of } = JSON.parse((await reading).stdout);
    const seconds = (performance.now() - startedAt) / 1000;
    const cpu = cpuSeconds(server.pid) - before;
    const ended = once(prober, 'close');
    prober.stdin.end();
    await ended;
    return { took: JSON.parse(await probed), whole, of, seconds, cpu, memory: peakMemory(server.pid) };
  } finally {
    await server.stop();
  }
}

async function measure(bench) {
  const expected = await expectedEvents(bench.workshop);
  const samples = [];
  const jobs = 50;
  for (let round = 0; round < bench.rounds; round += 1) samples.push(await once50(bench, jobs, expected));
  const of = (figure) => median(samples.map(figure));
  const broken = samples.find(({ whole, of: all }) => whole < all);
  return {
    figure: of(({ took }) => percentile(took, 0.99)),
    cpu: [of(({ cpu }) => cpu)],
    memory: [of(({ memory }) => memory)],
    fault: broken ? `${broken.of - broken.whole} of ${broken.of} streams are not whole` : null,
    note:
      `${((jobs * linesPerJob) / of(({ seconds }) => seconds) / 1e6).toFixed(1)} million lines a second; ` +
      `/health median ${of(({ took }) => percentile(took, 0.5)).toFixed(1)} ms, ` +
      `worst ${of(({ took }) => Math.max(...took)).toFixed(0)} ms`,
  };
}

export const rows = [
  {
    name: 'live-logs',
    what: 'jobs that print 200,000 lines at full speed, 50 to 50 streams, none lost: 99th percentile of /health',
    yardstick: '-',
    unit: 'ms',
    reach: atMost(100, 'ms'),
    measure,
  },
];
