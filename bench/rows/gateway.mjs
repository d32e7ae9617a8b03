import { once } from 'node:events';
import { nodeApp, shellApp } from '../support/apps.mjs';
import { curl, productArgs } from '../support/command.mjs';
import { GiB, randomFile } from '../support/data.mjs';
import { logLines, submit } from '../support/http.mjs';
import { interleave, percentile } from '../support/interleave.mjs';
import { plus, times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { curlForm, receiving, withServer } from '../support/uploading.mjs';
import { peakMemory } from '../support/usage.mjs';

/** `remote-app forward` to a server. */
class Gateway {
  #workshop;
  #child;

  static async start(workshop, server) {
    const gateway = new Gateway();
    gateway.#workshop = workshop;
    const words = ['forward', '--port', '0', '--json', '--server', server.url];
    gateway.#child = workshop.start(process.execPath, productArgs(words), {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [document] = await once(gateway.#child.stdout, 'data');
    const { host, port, token } = JSON.parse(String(document));
    Object.assign(gateway, { url: `http://${host}:${port}`, token });
    return gateway;
  }

  get pid() {
    return this.#child.pid;
  }

  /** curl with the gateway's token, and without the one that other programs of the run may have. */
  async curl(args) {
    const env = { HOME: await this.#workshop.directory('home') };
    return curl(this.#workshop, ['--header', `Authorization: Bearer ${this.token}`, ...args], { env });
  }

  stop() {
    return this.#workshop.end(this.#child);
  }
}

/** Calls `measure` with a gateway to the server. */
async function withGateway(workshop, server, measure) {
  const gateway = await Gateway.start(workshop, server);
  try {
    return await measure(gateway);
  } finally {
    await gateway.stop();
  }
}

/** The same by curl, through the gateway and directly. */
async function byTurns({ workshop, rounds }, server, args, settle = async () => {}) {
  return withGateway(workshop, server, async (gateway) => {
    const settled = async (sending) => {
      const sample = await sending;
      await settle();
      return sample;
    };
    const { figure, yardstick } = await interleave(rounds + 2, {
      figure: () => settled(receiving(gateway, () => gateway.curl(args(gateway.url)))),
      yardstick: () => settled(receiving(server, () => curl(workshop, args(server.url)))),
    });
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [figure.cpu, yardstick.cpu],
      memory: [peakMemory(gateway.pid), peakMemory(server.pid)],
    };
  });
}

async function upload(bench) {
  const { workshop } = bench;
  const form = await curlForm(workshop, [await randomFile(workshop, GiB)]);
  return withServer(workshop, 0, (server, settle) =>
    byTurns(bench, server, (url) => ['--config', form, `${url}/apps/nothing/infer`], settle),
  );
}

/** Calls `measure` with a server that has one app. */
async function withApp(workshop, app, env, measure) {
  const server = await Server.start(workshop, { apps: [app], env });
  try {
    return await measure(server);
  } finally {
    await server.stop();
  }
}

async function download(bench) {
  const { workshop } = bench;
  const env = { BENCH_DATA: await randomFile(workshop, GiB) };
  const app = await shellApp(workshop, 'sender', 'ln "$BENCH_DATA" "$output/volume.bin"');
  return withApp(workshop, app, env, async (server) => {
    const { job_id } = await submit(server, 'sender');
    await server.ended(job_id);
    return byTurns(bench, server, (url) => ['--output', '/dev/null', `${url}/jobs/${job_id}/result`]);
  });
}

const lines = 200;

/** Prints the time of each print, by a clock that all processes of a machine share. */
const ticker = `let left = ${lines};
const timer = setInterval(() => {
  console.log('at ' + process.hrtime.bigint());
  left -= 1;
  if (left === 0) clearInterval(timer);
}, 10);`;

/** Milliseconds from each line's print by the app to its arrival here. */
async function delaysOf(server, by) {
  const { job_id } = await submit(server, 'ticker');
  const found = [];
  for await (const line of logLines(by, job_id)) {
    const now = process.hrtime.bigint();
    if (line.startsWith('at ')) found.push(Number(now - BigInt(line.slice(3))) / 1e6);
  }
  if (found.length !== lines) throw new Error(`${found.length} of ${lines} lines came`);
  return { median: percentile(found, 0.5), late: percentile(found, 0.99) };
}

async function lineDelay({ workshop, rounds }) {
  const app = await nodeApp(workshop, 'ticker', ticker);
  return withApp(workshop, app, {}, (server) =>
    withGateway(workshop, server, async (gateway) => {
      const { figure, yardstick } = await interleave(rounds, {
        figure: () => delaysOf(server, gateway),
        yardstick: () => delaysOf(server, server),
      });
      const note = `median ${figure.median.toFixed(2)} ms, directly ${yardstick.median.toFixed(2)} ms`;
      return { figure: figure.late, yardstick: yardstick.late, note };
    }),
  );
}

const row = (name, what, measure) => ({
  name: `gateway-${name}`,
  what,
  yardstick: 'directly',
  unit: 's',
  reach: times(1.3),
  measure,
});

export const rows = [
  row('upload', 'upload 1 GiB in one file, by curl through forward', upload),
  row('download', 'result download, 1 GiB, by curl through forward', download),
  {
    name: 'gateway-line-delay',
    what: "delay from a line's print to its arrival through forward, 99th percentile",
    yardstick: 'directly',
    unit: 'ms',
    reach: plus(5, 'ms'),
    measure: lineDelay,
  },
];
