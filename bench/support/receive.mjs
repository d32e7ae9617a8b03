import { BareServer } from './bare.mjs';
import { curl } from './command.mjs';
import { interleave } from './interleave.mjs';
import { cpuSeconds, peakMemory } from './usage.mjs';

/**
 * Lets curl receive an answer of the server, and a file from a bare one, by turns.
 * @param way `path`: of the answer; `file`: what the bare server sends; `output`: where curl writes both;
 *   `afterOurs`: called when an answer of the server has been received
 * @returns medians: seconds, cpu seconds of each server, and the peaks of their memory in MiB
 */
export async function receiveByTurns(workshop, server, { path, file, output, rounds, afterOurs }) {
  const bare = await BareServer.start(workshop, file);
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
