import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../support/command.mjs';
import { GiB, randomFile, smallFiles } from '../support/data.mjs';
import { interleave } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';

const program = fileURLToPath(new URL('../programs/extract.mjs', import.meta.url));

/** @param clear removes what was extracted, or leaves it to the end of the run */
async function compare({ workshop, rounds }, archive, clear) {
  const { figure, yardstick } = await interleave(rounds, {
    figure: async () => {
      const destination = await workshop.directory('extracted');
      const sample = await run(workshop, process.execPath, [program, archive, destination], { memory: true });
      await clear(destination);
      return { ...sample, seconds: Number(sample.stdout) };
    },
    yardstick: async () => {
      const destination = await workshop.directory('extracted');
      const sample = await run(workshop, 'unzip', ['-q', archive, '-d', destination]);
      await clear(destination);
      return sample;
    },
  });
  return {
    figure: figure.seconds,
    yardstick: yardstick.seconds,
    cpu: [figure.cpu, yardstick.cpu],
    memory: [figure.memory],
  };
}

/** Zips a path with Info-ZIP, so that both sides extract an archive that neither has written. */
async function zip(workshop, source, ...flags) {
  const archive = path.join(await workshop.directory('archive'), 'result.zip');
  const cwd = path.dirname(source);
  await run(workshop, 'zip', ['-q', ...flags, archive, path.basename(source)], { cwd });
  return archive;
}

async function measureStored(bench) {
  const file = await randomFile(bench.workshop, GiB);
  const archive = await zip(bench.workshop, file, '-0');
  const result = await compare(bench, archive, (directory) => rm(directory, { recursive: true }));
  await rm(archive);
  return result;
}

async function measureSmall(bench) {
  const directory = await smallFiles(bench.workshop, 10_000);
  // Removing this many files would slow down making the next ones (see Workshop).
  return compare(bench, await zip(bench.workshop, directory, '-r'), async () => {});
}

export const rows = [
  {
    name: 'extract-stored',
    what: 'result extraction by the client, 1 GiB stored',
    yardstick: 'unzip',
    unit: 's',
    reach: times(1.2),
    tools: ['zip', 'unzip'],
    measure: measureStored,
  },
  {
    name: 'extract-small',
    what: 'result extraction by the client, 10,000 small files',
    yardstick: 'unzip',
    unit: 's',
    reach: times(2.5),
    tools: ['zip', 'unzip'],
    measure: measureSmall,
  },
];
