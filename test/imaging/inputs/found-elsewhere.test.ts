import { symlinkSync } from 'node:fs';
import { expect, test } from 'vitest';
import { operationOf } from '../../../src/contract/operations.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { collect } from '../../client/support/collect.js';
import { ownPlace } from '../../client/support/own-place.js';
import { dicomFile } from '../../support/dicom-files.js';
import { metaHeader } from '../../support/headers.js';
import { plant } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';

const root = ownPlace();
const { at, short } = root;
const fieldOf = (name: string) => {
  const field = [...operationOf('infer').fields, ...operationOf('fine_tune').fields].find(
    (each) => each.name === name,
  );
  if (!field) throw new Error(`no field ${name}`);
  return field;
};
const find = (paths: readonly string[], options: Parameters<typeof findFiles>[1] = {}) =>
  findFiles({ files: [{ field: fieldOf('inputs'), groups: [paths.map(at)] }], archive: null }, options);

test('A case that fails by itself keeps its place among the others, and so does a link to something that is not a volume', async () => {
  await plant(root.path, {
    'in/a.nii': 'x',
    'in/b.nii': '',
    'in/c.nii': 'x',
    'in/e.nii': 'x',
    'text.txt': 'words',
  });
  symlinkSync('../text.txt', at('in/d.mhd'));
  const { volumes } = await find(['in'], { isEach: true });
  expect(volumes[0]?.groups[0]?.map((unit) => [unit.name, unit.kind === 'file' && unit.fault])).toEqual([
    ['a.nii', undefined],
    ['b.nii', 'is empty (0 bytes)'],
    ['c.nii', undefined],
    ['d.mhd', expect.stringMatching(/^leads to .* is not recognised as a volume/)],
    ['e.nii', undefined],
  ]);
});

test('Voxel files of a header are not reported as left out, and are not sent without it', async () => {
  await plant(root.path, { 'in/x.mhd': metaHeader('voxels.dat'), 'in/voxels.dat': 'x', 'in/other.dat': 'x' });
  const { skipped, volumes } = await find(['in']);
  expect(volumes[0]?.groups[0]?.map(({ name }) => name)).toEqual(['x.mhd', 'voxels.dat']);
  expect(skipped.map(short)).toEqual(['in/other.dat']);
  await plant(root.path, {
    'A/p1.mhd': metaHeader('img.raw'),
    'A/img.raw': '1',
    'B/p2.mhd': metaHeader('img.raw'),
    'B/img.raw': '2',
    'B/ct.nii': '3',
  });
  const listed = await find(['A', 'B'], { listsRefused: true });
  expect(listed.refused.map((each) => short(each.path))).toEqual(['A/p1.mhd', 'B/p2.mhd']);
  expect(listed.volumes[0]?.groups[0]?.map(({ name }) => name)).toEqual(['ct.nii']);
});

test('Files of a data set that do not belong to its stores are reported', async () => {
  await plant(root.path, { ...zarrStore('set/a.zarr'), 'set/a.zarr/notes': 'x', 'set/b.nii': 'x' });
  const archive = { field: fieldOf('dataset'), path: at('set') };
  const { strays } = await findFiles({ files: [], archive });
  expect(strays.map(short)).toEqual(['set/a.zarr/notes']);
});

test('A directory may contain volumes whatever its name, and one that a pattern skips is reported once', async () => {
  await plant(root.path, {
    'dataset_description.json': '{}',
    'scans.txt/a.nii': 'x',
    'derivatives/b.nii': 'x',
    'derivatives/c.nii': 'x',
  });
  expect((await collect([at('scans.txt')])).units).toHaveLength(1);
  expect((await collect([root.path])).units.map((unit) => short(unit.path))).toEqual(['scans.txt/a.nii']);
  const { units, skipped } = await collect([at('*/*.nii')]);
  expect([units.map((unit) => short(unit.path)), skipped.map(short)]).toEqual([
    ['scans.txt/a.nii'],
    ['derivatives'],
  ]);
});

test('A link to a DICOM file elsewhere is followed, whatever its name, and reported if it is sent', async () => {
  const slice = dicomFile({ pixels: new Int16Array(4), size: [2, 2], position: [0, 0, 0] });
  await plant(root.path, { 'out/scan': slice, 'out/text': 'words', 'in/a.nii': 'x' });
  // The second one leads to the same image, which is sent once.
  for (const name of ['x', 'y']) symlinkSync('../out/scan', at(`in/${name}`));
  symlinkSync('../out/text', at('in/z'));
  const { followed, copies, skipped, volumes } = await find(['in']);
  expect(volumes[0]?.groups[0]?.map((unit) => short(unit.path))).toEqual(['in/a.nii', 'in/x']);
  expect(followed.map((each) => [each.path, each.target].map(short))).toEqual([['in/x', 'out/scan']]);
  expect([copies.map(short), skipped.map(short)]).toEqual([['in/y'], ['in/z']]);
});
