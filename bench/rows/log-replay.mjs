import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { shellApp } from '../support/apps.mjs';
import { BareServer } from '../support/bare.mjs';
import { curl } from '../support/command.mjs';
import { logFile } from '../support/data.mjs';
import { submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

async function digest(chunks) {
  const hash = createHash('sha1');
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

/** The whole stream that a log makes, from the log. */
async function* asStream(log) {
  for await (const line of createInterface({ input: createReadStream(log) })) yield `data: ${line}\n\n`;
  yield 'data: __DONE__\n\n';
}

/** curl writes both into a file; that of the server is then compared, byte for byte, with what the log makes. */
async function measure({ workshop, rounds }, scale) {
  const lines = 1_000_000 * scale;
  const source = await logFile(workshop, lines);
  const app = await shellApp(workshop, 'cat', 'cat "$BENCH_LOG"');
  const server = await Server.start(workshop, { apps: [app], env: { BENCH_LOG: source } });
  try {
    const { job_id } = await submit(server, 'cat');
    await server.ended(job_id);
    const log = path.join(server.jobDirectory(job_id), 'log');
    const whole = await digest(asStream(log));
    const copy = path.join(workshop.root, 'replayed');
    const bare = await BareServer.start(workshop, log);
    const receive = async ({ pid }, url) => {
      const before = cpuSeconds(pid);
      const { seconds } = await curl(workshop, ['--output', copy, url]);
      return { seconds, cpu: cpuSeconds(pid) - before };
    };
    let fault = null;
    const sides = {
      figure: async () => {
        const sample = await receive(server, `${server.url}/jobs/${job_id}/logs`);
        if ((await digest(createReadStream(copy))) !== whole) fault = 'the stream is not the log';
        return sample;
      },
      yardstick: () => receive(bare, bare.url),
    };
    if ((await digest(asStream(log))) === (await digest(asStream(source)))) fault = 'the log has no head';
    await interleave(1, sides);
    const { figure, yardstick } = await interleave(rounds + 2, sides);
    const memory = [peakMemory(server.pid), peakMemory(bare.pid)];
    await bare.stop();
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [figure.cpu, yardstick.cpu],
      memory,
      fault,
    };
  } finally {
    await server.stop();
  }
}

export const rows = [
  {
    name: 'log-replay',
    what: 'replay of a log of 1,000,000 lines (60 MB) to one stream, no line lost',
    yardstick: 'curl from a bare Node server, the same file',
    unit: 's',
    reach: times(4),
    grows: true,
    measure,
  },
];
