import { createInterface } from 'node:readline';
import { nodeApp } from '../support/apps.mjs';
import { productArgs } from '../support/command.mjs';
import { submit } from '../support/http.mjs';
import { percentile } from '../support/interleave.mjs';
import { nothing } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';

/** The lines before these do not count: the stream starts, and V8 still compiles the client. */
const warmUp = 50;

/** Prints the time of each print, by a clock that all processes of a machine share. */
const ticker = `let left = Number(process.env.BENCH_LINES);
const timer = setInterval(() => {
  console.log('at ' + process.hrtime.bigint());
  left -= 1;
  if (left === 0) clearInterval(timer);
}, 10);`;

/** Milliseconds from each line's print by the app to its print by \`remote-app logs\`. */
async function delays({ workshop, rounds }) {
  const lines = warmUp + 300 * rounds;
  const app = await nodeApp(workshop, 'ticker', ticker);
  const server = await Server.start(workshop, { apps: [app], env: { BENCH_LINES: String(lines) } });
  try {
    const { job_id } = await submit(server, 'ticker');
    const client = workshop.start(process.execPath, productArgs(['logs', job_id, '--server', server.url]), {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const found = [];
    for await (const line of createInterface({ input: client.stdout })) {
      const now = process.hrtime.bigint();
      if (line.startsWith('at ')) found.push(Number(now - BigInt(line.slice(3))) / 1e6);
    }
    if (found.length !== lines) throw new Error(`${found.length} of ${lines} lines came`);
    return found.slice(warmUp);
  } finally {
    await server.stop();
  }
}

const row = (name, how, share) => ({
  name: `line-delay-${name}`,
  what: `delay from a line's print to the client's, one line every 10 ms, ${how}`,
  yardstick: '-',
  unit: 'ms',
  reach: nothing,
  measure: async (bench) => ({
    figure: percentile(await bench.workshop.once('line-delays', () => delays(bench)), share),
  }),
});

export const rows = [row('median', 'median', 0.5), row('p99', '99th percentile', 0.99)];
