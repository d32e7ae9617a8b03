import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { writeNifti } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { findCasesToShow } from '../../../src/imaging/pictures/cases.js';
import { straight } from '../../support/affine.js';
import { dicomSeries } from '../../support/dicom.js';
import { dicomFile, element } from '../../support/dicom-files.js';
import { metaHeader } from '../../support/headers.js';
import { plant } from '../../support/temporary.js';
import { ownStudy } from './study.js';

const at = ownStudy();
const short = (text: string) => text.replaceAll(`${at('')}/`, '').replaceAll(`${at('')}`, '');

/** Writes volumes of eight voxels: those of a scan differ from each other, a mask has ones, or ones and twos. */
async function write(volumes: Readonly<Record<string, 'scan' | 'mask' | 'labels'>>): Promise<void> {
  for (const [name, kind] of Object.entries(volumes)) {
    mkdirSync(path.dirname(at(name)), { recursive: true });
    const values = {
      scan: [1, 5, 2, 9, 3, 7, 4, 8],
      mask: [0, 1, 1, 1, 0, 0, 0, 0],
      labels: [0, 1, 1, 1, 2, 2, 2, 0],
    };
    await writeNifti(at(name), {
      size: [8, 1, 1],
      affine: straight(),
      data: Uint8Array.from(values[kind]),
    });
  }
}

async function shown(...paths: readonly string[]) {
  const { cases, problems } = await findCasesToShow(paths.map(at));
  return {
    cases: cases.map(({ name, scan, masks, notes, status, recorded }) => ({
      ...{ name, scan: scan && short(scan.path), notes, status, recorded },
      masks: masks.map((each) => [short(each.name), short(each.file.path)]),
    })),
    problems: problems.map(short),
  };
}
const plain = { notes: [], status: null, recorded: null };

test('Layers that share a name are called by their paths', async () => {
  await write({
    'in/a.nii': 'scan',
    'x/a_seg.nii': 'labels',
    'y/a_seg.nii': 'labels',
    'x/a_gt.nii': 'labels',
  });
  const { cases } = await shown('in', 'x', 'y');
  expect(cases).toEqual([
    {
      ...{ name: 'a', scan: 'in/a.nii', ...plain },
      masks: [
        ['../x/a_gt.nii', 'x/a_gt.nii'],
        ['../x/a_seg.nii', 'x/a_seg.nii'],
        ['../y/a_seg.nii', 'y/a_seg.nii'],
      ],
    },
  ]);
});

test('A series is a scan with the name of its directory, and a damaged one a problem', async () => {
  const within = (directory: string, files: object) =>
    Object.fromEntries(
      Object.entries(files).map(([name, bytes]) => [`${directory}/${name}`, bytes as Buffer]),
    );
  const slices = [0, 1].map((z) =>
    Buffer.from(
      dicomFile({
        ...{
          pixels: Int16Array.from({ length: 16 }, (_, index) => index),
          size: [4, 4],
          position: [0, 0, z],
        },
        more: [element(0x00080060, 'CS', 'CT'), element(0x00080018, 'UI', `1.2.3.${z}`)],
      }),
    ),
  );
  await plant(at(''), {
    ...within('ct', { '1.dcm': slices[0], '2.dcm': slices[1] }),
    ...within('bad', dicomSeries(2, { series: '2', number: 2, hasPixels: false })),
    'key/a.mhd': metaHeader('id', 4),
    'key/id': 'text that is none of its voxels',
  });
  await write({ 'ct_seg.nii': 'labels' });
  const { cases, problems } = await shown('ct', 'bad', 'key');
  expect(cases.map(({ name, scan }) => [name, scan])).toEqual([['ct', 'ct']]);
  expect(problems).toHaveLength(2);
  expect(problems[0]).toMatch(/bad/);
  expect(problems[1]).toMatch(/^'key\/a\.mhd' has its voxels in 'key\/id', which is text, .*\.$/);
});
