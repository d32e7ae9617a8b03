import { remoteApp } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { plus } from '../support/reach.mjs';
import { writeSeries } from '../support/scans.mjs';
import { withServer } from '../support/uploading.mjs';

const slices = 500;

/** How a command sends a series to a server; each upload is gone from there before the next. */
const sender = (workshop, server, settle) => async (series, flags, options) => {
  const words = ['infer', '--detach', '--app', 'nothing', '--cpu', '1', '--server', server.url];
  const sample = await remoteApp(workshop, [...words, ...flags, series], options);
  await settle();
  return sample;
};

async function seriesOf(workshop, count) {
  const series = await workshop.directory('series');
  await writeSeries(series, count);
  return series;
}

async function measureTime({ workshop, rounds }) {
  const series = await seriesOf(workshop, slices);
  return withServer(workshop, 0, async (server, settle) => {
    const send = sender(workshop, server, settle);
    const { figure, yardstick } = await interleave(rounds, {
      figure: () => send(series, ['--deidentify']),
      yardstick: () => send(series, []),
    });
    return {
      figure: figure.seconds,
      yardstick: yardstick.seconds,
      cpu: [figure.cpu, yardstick.cpu],
    };
  });
}

async function measureMemory({ workshop, rounds }) {
  const [long, short] = await Promise.all(
    [slices, slices / 5].map((count) => seriesOf(workshop, Math.round(count))),
  );
  return withServer(workshop, 0, async (server, settle) => {
    const send = sender(workshop, server, settle);
    const peak = (series, flags) => () => send(series, flags, { memory: true });
    const { figure, yardstick, plain } = await interleave(rounds, {
      figure: peak(long, ['--deidentify']),
      yardstick: peak(short, ['--deidentify']),
      plain: peak(long, []),
    });
    return {
      figure: figure.memory,
      yardstick: yardstick.memory,
      cpu: [figure.cpu, yardstick.cpu],
      note: `${plain.memory.toFixed(0)} MiB for ${slices} slices as they are`,
    };
  });
}

export const rows = [
  {
    name: 'deidentify-series',
    what: `send a series of ${slices} slices of 512 x 512, de-identified`,
    yardstick: 'the same as it is',
    unit: 's',
    reach: plus(1.5, 's'),
    measure: measureTime,
  },
  {
    name: 'memory-deidentify',
    what: 'client memory, the same',
    yardstick: `its own with ${slices / 5} slices`,
    unit: 'MiB',
    reach: plus(48, 'MiB'),
    measure: measureMemory,
  },
];
