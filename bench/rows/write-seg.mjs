import { stat } from 'node:fs/promises';
import path from 'node:path';
import { remoteApp } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { atMost, nothing, plus } from '../support/reach.mjs';
import { labels, writeBalls, writeColumns, writeSeries } from '../support/scans.mjs';

const slices = 600;

/** A function that converts a mask of so many slices into the study of its series, and the file that it makes. */
async function converter(workshop, count, writeMask) {
  const series = await workshop.directory('series');
  const directory = await workshop.directory('mask');
  const [mask, target] = ['mask.nii.gz', 'mask.seg.dcm'].map((name) => path.join(directory, name));
  await Promise.all([writeSeries(series, count), writeMask(mask, count)]);
  const words = ['convert', mask, '--like', series, '--as', 'dicom-seg', '-o', target, '--force'];
  return { target, convert: (options) => remoteApp(workshop, words, options) };
}

async function measureTime({ workshop, rounds }, writeMask) {
  const { target, convert } = await converter(workshop, slices, writeMask);
  const { figure } = await interleave(rounds, { figure: () => convert() });
  const { size } = await stat(target);
  return { figure: figure.seconds, cpu: [figure.cpu], note: `${(size / 1e6).toFixed(0)} MB` };
}

/** With all labels in every slice: what is kept for each of their frames shows most. */
async function measureMemory({ workshop, rounds }) {
  const [long, short] = await Promise.all(
    [500, 100].map((count) => converter(workshop, count, writeColumns)),
  );
  const { figure, yardstick } = await interleave(rounds, {
    figure: () => long.convert({ memory: true }),
    yardstick: () => short.convert({ memory: true }),
  });
  return { figure: figure.memory, yardstick: yardstick.memory, cpu: [figure.cpu, yardstick.cpu] };
}

const timed = (name, what, reach, writeMask) => ({
  name,
  what,
  yardstick: '-',
  unit: 's',
  reach,
  measure: (bench) => measureTime(bench, writeMask),
});

const mask = `remote-app convert --as dicom-seg, a mask of 512 x 512 x ${slices}`;

export const rows = [
  timed('write-seg', `${mask} with ${labels} labels`, atMost(5, 's'), writeBalls),
  timed('write-seg-full', `${mask} with ${labels} labels in every slice`, nothing, writeColumns),
  {
    name: 'memory-write-seg',
    what: `the same with 500 slices and all ${labels} labels in each, resident memory`,
    yardstick: 'its own with 100 slices',
    unit: 'MiB',
    reach: plus(48, 'MiB'),
    measure: measureMemory,
  },
];
