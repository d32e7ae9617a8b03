import { shellApp } from './apps.mjs';
import { curl } from './command.mjs';
import { submit } from './http.mjs';
import { interleave } from './interleave.mjs';
import { startBare } from './node-server.mjs';
import { Server } from './server.mjs';
import { cpuSeconds, peakMemory } from './usage.mjs';

/**
 * Runs one job of an app, and lets curl receive an answer about it, and a file from a bare server, by turns.
 * @param app `script`: what it does; `env`: what `serve` has in its environment
 * @param wayOf given the server and the job's id: what is received (see `receiveByTurns`)
 */
export async function againstBare({ workshop, rounds }, { script, env }, wayOf) {
  const app = await shellApp(workshop, 'sender', script);
  const server = await Server.start(workshop, { apps: [app], env });
  try {
    const { job_id } = await submit(server, 'sender');
    await server.ended(job_id);
    return await receiveByTurns(workshop, server, { ...(await wayOf(server, job_id)), rounds });
  } finally {
    await server.stop();
  }
}

/**
 * Lets curl receive an answer of the server, and a file from a bare one, by turns.
 * @param way `path`: of the answer; `file`: what the bare server sends; `output`: where curl writes both;
 *   `afterOurs`: called when an answer of the server has been received
 * @returns medians: seconds, cpu seconds of each server, and the peaks of their memory in MiB
 */
async function receiveByTurns(workshop, server, { path, file, output, rounds, afterOurs }) {
  const bare = await startBare(workshop, file);
  const receive = async ({ pid }, url) => {
    const before = cpuSeconds(pid);
    const { seconds } = await curl(workshop, ['--output', output, url]);
    return { seconds, cpu: cpuSeconds(pid) - before };
  };
  const sides = {
    figure: async () => {
      const sample = await receive(server, `${server.url}${path}`);
      await afterOurs?.();
      return sample;
    },
    yardstick: () => receive(bare, bare.url),
  };
  await interleave(1, sides);
  // Short times: their ratio needs more of them.
  const { figure, yardstick } = await interleave(rounds + 2, sides);
  const memory = [peakMemory(server.pid), peakMemory(bare.pid)];
  await bare.stop();
  return {
    figure: figure.seconds,
    yardstick: yardstick.seconds,
    cpu: [figure.cpu, yardstick.cpu],
    memory,
  };
}
