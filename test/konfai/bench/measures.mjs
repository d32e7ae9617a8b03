import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { curl } from '../../../bench/support/command.mjs';
import { GiB, randomFile } from '../../../bench/support/data.mjs';
import { residentMemory } from '../../../bench/support/usage.mjs';
import { clients, runProgram } from '../clients.mjs';
import { doing, logOf, reaches, submit } from '../jobs.mjs';

const prober = fileURLToPath(new URL('../../../bench/programs/probe-health.mjs', import.meta.url));

/** Seconds since a moment of `performance.now()`. */
const since = (moment) => (performance.now() - moment) / 1000;

/** Resolves when a job and its files are gone, so that one measurement's removal does not run into the next. */
async function removed(server, id) {
  for (let status = 200; status === 200; ) {
    status = (await server.fetch(`/jobs/${id}`)).status;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Uploads 1 GiB by curl, while another process asks for /health every 10 ms: the seconds, and its slowest answer. */
export async function upload({ workshop, app }, server) {
  const file = await randomFile(workshop, GiB);
  const probe = workshop.start(process.execPath, [prober, `${server.url}/health`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const took = text(probe.stdout);
  const form = ['inputs=@', file, ';filename=scan.mha'].join('');
  const words = ['-F', 'inputs_groups=1', '-F', 'cpu=1', '-F', form, `${server.url}/apps/${app}/infer`];
  const { seconds, stdout } = await curl(workshop, words);
  const ended = once(probe, 'close');
  probe.stdin.end();
  await ended;
  await removed(server, JSON.parse(stdout).job_id);
  return { upload: seconds, health: Math.max(...JSON.parse(await took)) };
}

/** A job that prints 200,000 lines, its log read from the start: how many lines arrive, and after how many seconds all. */
export async function log({ app }, server) {
  const startedAt = performance.now();
  const id = await submit(server, app, { cpu: '1', ...doing('LINES=200000') });
  const lines = await logOf(server, id, { limit: 120_000 });
  const seconds = since(startedAt);
  await removed(server, id);
  return { lines: lines.filter((line) => / of the log$/.test(line)).length, log: seconds };
}

/** The moment at which a line of a job's log arrives, and its stream, which is read on by `rest`. */
async function untilLine(server, id, wanted) {
  const response = await server.fetch(`/jobs/${id}/logs`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let all = '';
  while (!all.includes(wanted)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The log of ${server.side} has no '${wanted}': ${all.slice(-500)}`);
    all += value;
  }
  const at = performance.now();
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  return { at, rest };
}

/** Milliseconds from the submission of a small job to the first line that its command prints. */
export async function firstLine({ app }, server) {
  const startedAt = performance.now();
  const id = await submit(server, app, { cpu: '1' });
  const { at, rest } = await untilLine(server, id, 'data: konfai-apps ');
  await rest();
  await removed(server, id);
  return { line: at - startedAt };
}

/** Seconds from the last act of an app that wrote 200 MB to the result on the client's disk. */
export async function result({ workshop, app }, server) {
  const id = await submit(server, app, { cpu: '1', ...doing('MIB=191') });
  const { at, rest } = await untilLine(server, id, 'data: written');
  await rest();
  await reaches(server, id, 'done');
  const file = path.join(workshop.root, 'result.zip');
  await curl(workshop, ['--output', file, `${server.url}/jobs/${id}/result`]);
  const seconds = since(at);
  await rm(file);
  await removed(server, id);
  return { result: seconds };
}

/** Seconds of a whole infer with KonfAI's engine: from the start of the command to its end. */
async function inferBy(client, { workshop, root, app }, server) {
  const output = path.join(await workshop.directory('result'), 'Output');
  const operation = { theirs: ['infer', '-i', 'scan.mha'], ours: ['infer', '-i', 'scan.mha'] };
  const startedAt = performance.now();
  const { code, printed } = await runProgram(workshop, client.words(server, app, operation, output), root);
  if (code !== 0) throw new Error(`${client.name}, ${server.side}: ${printed.slice(-1000)}`);
  return since(startedAt);
}

/** The same by each client. */
export async function infer(place, server) {
  const figures = {};
  for (const client of clients) figures[client.name] = await inferBy(client, place, server);
  return figures;
}

/** The same on a server of ours that has the engine loaded, by our client, and by theirs on theirs. */
export async function loadedInfer(place, server) {
  const own = server.isLoaded ? 'our client' : 'their client';
  const client = clients.find(({ name }) => name === own);
  return { loaded: await inferBy(client, place, server) };
}

/** Seconds from the start of a server to its first answer, and MiB that it has in memory then. */
export async function start({ startServer }) {
  const startedAt = performance.now();
  const server = await startServer();
  await (await server.fetch('/health')).text();
  const seconds = since(startedAt);
  const memory = residentMemory(server.pid);
  await server.stop();
  return { start: seconds, memory };
}
