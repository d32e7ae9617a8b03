import { once } from 'node:events';
import { until } from '../support/until.mjs';
import { clients } from './clients.mjs';
import { stateOf } from './jobs.mjs';
import { environment } from './servers.mjs';

/** A job that takes long, with the program of `test/konfai/engine`. */
const operation = {
  theirs: ['infer', '-i', 'scan.mha', '--set', 'SLEEP=60'],
  ours: ['infer', '-i', 'scan.mha', '--set', 'SLEEP=60'],
};

/** Interrupts a client as Ctrl-C does, once the job's command has printed something; the faults of what follows. */
async function interrupt({ workshop, root, app }, client, server) {
  const [program, ...words] = client.words(server, app, operation, await workshop.directory('interrupted'));
  const child = workshop.start(program, words, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment,
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      printed += chunk;
    });
  const closed = once(child, 'close');
  await until(`${client.name} shows the log`, () => printed.includes('konfai-apps infer'), 60_000);
  child.kill('SIGINT');
  const [code] = await closed;
  const id = /\b[0-9a-f]{12}\b/.exec(printed)?.[0];
  const { status } = await stateOf(server, id);
  return [
    ...(code === 130 ? [] : [`ended with ${code}: ${printed.slice(-500)}`]),
    ...(status === 'killed' ? [] : [`the job is ${status}`]),
  ];
}

/**
 * The row of Ctrl-C: every client ends with 130, and has killed the job on every server.
 * @param servers with the program of `test/konfai/engine`
 */
export async function interruptionRow(place, servers) {
  const cells = [];
  for (const client of clients) {
    for (const server of servers) {
      const startedAt = performance.now();
      const faults = await interrupt(place, client, server);
      const seconds = (performance.now() - startedAt) / 1000;
      cells.push({ name: `${client.name}, ${server.side}`, seconds, faults });
    }
  }
  return { name: 'Ctrl-C', cells };
}
