import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { shellApp } from '../support/apps.mjs';
import { logFile } from '../support/data.mjs';
import { submit } from '../support/http.mjs';
import { times } from '../support/reach.mjs';
import { receiveByTurns } from '../support/receive.mjs';
import { Server } from '../support/server.mjs';

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
    let fault = null;
    const copy = path.join(workshop.root, 'replayed');
    if ((await digest(asStream(log))) === (await digest(asStream(source)))) fault = 'the log has no head';
    const afterOurs = async () => {
      if ((await digest(createReadStream(copy))) !== whole) fault = 'the stream is not the log';
    };
    const way = { path: `/jobs/${job_id}/logs`, file: log, output: copy, rounds, afterOurs };
    return { ...(await receiveByTurns(workshop, server, way)), fault };
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
