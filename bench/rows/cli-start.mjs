import { shellApp } from '../support/apps.mjs';
import { remoteApp, run } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { nothing, times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';

/** A start takes a tenth of a second: many measurements are cheap, and few would be too noisy. */
const roundsPerRun = 7;

async function compare({ workshop, rounds }, args) {
  const { figure, yardstick } = await interleave(rounds * roundsPerRun, {
    figure: () => remoteApp(workshop, args),
    yardstick: () => run(workshop, process.execPath, ['-e', '0']),
  });
  const { memory } = await remoteApp(workshop, args, { memory: true });
  return {
    figure: figure.seconds * 1000,
    yardstick: yardstick.seconds * 1000,
    cpu: [figure.cpu, yardstick.cpu],
    memory: [memory],
  };
}

async function measureHealth(bench) {
  const app = await shellApp(bench.workshop, 'nothing', ':');
  const server = await Server.start(bench.workshop, { apps: [app] });
  try {
    return await compare(bench, ['health', '--server', server.url]);
  } finally {
    await server.stop();
  }
}

const row = (name, command, reach, measure) => ({
  name,
  what: `remote-app ${command}`,
  yardstick: 'node -e 0',
  unit: 'ms',
  reach,
  measure,
});

export const rows = [
  row('cli-version', '--version', nothing, (bench) => compare(bench, ['--version'])),
  row('cli-help', '--help', times(6), (bench) => compare(bench, ['--help'])),
  row('cli-health', 'health', times(9), measureHealth),
];
