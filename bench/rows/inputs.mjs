import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import dicomParser from 'dicom-parser';
import { remoteApp } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { atMost, plus } from '../support/reach.mjs';
import { realSlice } from '../support/scans.mjs';

/** Bytes of the voxels that each file keeps: the headers are what is read. */
const voxels = 2048;

/** Writes series of a real slice, whose headers differ in their UIDs and numbers alone. */
async function writeStudy(directory, series, files) {
  const bytes = await readFile(realSlice);
  const { elements } = dicomParser.parseDicom(bytes);
  const head = bytes.subarray(0, elements.x7fe00010.dataOffset + voxels);
  const put = (target, tag, text) => {
    const { dataOffset, length } = elements[tag];
    target.write(
      text.padStart(6, '0').slice(-length),
      dataOffset + Math.max(0, length - 6 - (length % 2)),
      'latin1',
    );
  };
  for (let at = 0; at < files; at += 1) {
    const number = at % series;
    const own = path.join(directory, `S${number}`);
    if (at < series) await mkdir(own, { recursive: true });
    const copy = Buffer.from(head);
    put(copy, 'x0020000e', String(number));
    put(copy, 'x00080018', String(at));
    await writeFile(path.join(own, `IM${at}`), copy);
  }
}

/** Lists a study with `remote-app inputs`. */
async function measure({ workshop, rounds }, { series, files, what }) {
  const directory = await workshop.directory('study');
  const count = Math.max(series, files);
  await writeStudy(directory, series, count);
  const list = () => remoteApp(workshop, ['inputs', directory, '--json'], { memory: what === 'memory' });
  if (what === 'memory') {
    const { memory } = await list();
    return { figure: memory, memory: [memory] };
  }
  const { figure } = await interleave(rounds, { figure: list });
  return { figure: figure.seconds, cpu: [figure.cpu] };
}

/** What it takes to read a series, beside a command that reads one file. */
async function measureSeries({ workshop, rounds }) {
  const directory = await workshop.directory('study');
  await writeStudy(directory, 1, 200);
  const volume = path.join(await workshop.directory('volume'), 'scan.nii');
  await writeFile(volume, 'x');
  const { figure, yardstick } = await interleave(rounds, {
    figure: () => remoteApp(workshop, ['inputs', directory]),
    yardstick: () => remoteApp(workshop, ['inputs', volume]),
  });
  return { figure: figure.seconds, yardstick: yardstick.seconds, cpu: [figure.cpu, yardstick.cpu] };
}

const many = { series: 40, files: 66_000 };

export const rows = [
  {
    name: 'inputs-many',
    what: 'remote-app inputs, 66,000 slices in 40 series',
    yardstick: '-',
    unit: 's',
    reach: atMost(20, 's'),
    measure: (bench) => measure(bench, { ...many, what: 'time' }),
  },
  {
    name: 'memory-inputs-many',
    what: 'the same, resident memory',
    yardstick: '-',
    unit: 'MiB',
    reach: atMost(300, 'MiB'),
    measure: (bench) => measure(bench, { ...many, what: 'memory' }),
  },
  {
    name: 'inputs-series',
    what: 'remote-app inputs, one series of 200 slices',
    yardstick: 'one volume',
    unit: 's',
    reach: plus(0.5, 's'),
    measure: measureSeries,
  },
];
