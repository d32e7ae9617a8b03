import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { logFile } from '../support/data.mjs';
import { times } from '../support/reach.mjs';
import { againstBare } from '../support/receive.mjs';

async function digest(chunks) {
  const hash = createHash('sha1');
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

/** The whole stream of a log, made from the log file. */
async function* asStream(log) {
  for await (const line of createInterface({ input: createReadStream(log) })) yield `data: ${line}\n\n`;
  yield 'data: __DONE__\n\n';
}

/** curl writes both into a file; that of the server is then compared, byte for byte, with what the log makes. */
async function measure(bench) {
  const lines = 1_000_000;
  const source = await logFile(bench.workshop, lines);
  const copy = path.join(bench.workshop.root, 'replayed');
  const app = { script: 'cat "$BENCH_LOG"', env: { BENCH_LOG: source } };
  let fault = null;
  const result = await againstBare(bench, app, async (server, id) => {
    const log = path.join(server.jobDirectory(id), 'log');
    const whole = await digest(asStream(log));
    if ((await digest(asStream(log))) === (await digest(asStream(source)))) fault = 'the log has no head';
    const afterOurs = async () => {
      if ((await digest(createReadStream(copy))) !== whole) fault = 'the stream is not the log';
    };
    return { path: `/jobs/${id}/logs`, file: log, output: copy, afterOurs };
  });
  return { ...result, fault };
}

export const rows = [
  {
    name: 'log-replay',
    what: 'replay of a log of 1,000,000 lines (60 MB) to one stream, no line lost',
    yardstick: 'curl from a bare Node server, the same file',
    unit: 's',
    reach: times(5),
    measure,
  },
];
