import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { lacks, scansOf } from '../../../test/support/needs.mjs';
import { temporary } from '../../../test/support/temporary.js';
import { openVolume, readVolume, writeNifti } from '../src/index.js';
import { workspace } from './written.js';

const hasPython = !lacks('python3');
const nibabel = hasPython ? scansOf('nibabel') : null;
const templates = nibabel && scansOf('mricron');

/** What nibabel reads of a file: sums of each frame and of its slices, by which a voxel in the wrong place is seen. */
interface Seen {
  readonly size: [number, number, number];
  readonly frames: number;
  readonly affine: number[][];
  /** Of each frame: the sum of its values, and of its values times their index, i fastest. */
  readonly sums: [number, number][];
}

/** Debian's Python: its packages of Python are not those of another one on PATH. */
async function python(program: string, ...args: string[]): Promise<string> {
  const options = { maxBuffer: 1 << 26 };
  return (await promisify(execFile)('/usr/bin/python3', ['-c', program, ...args], options)).stdout;
}

const look = `
import json
import nibabel, numpy
def seen(file):
    image = nibabel.load(file)
    data = numpy.asarray(image.dataobj).astype(numpy.float64)
    data = numpy.nan_to_num(data)
    size = (list(data.shape) + [1, 1])[:3]
    frames = data.reshape(size + [-1], order='F')
    weights = numpy.arange(1, size[0] * size[1] * size[2] + 1)
    flat = [frames[..., at].reshape(-1, order='F') for at in range(frames.shape[3])]
    return dict(size=size, frames=len(flat), affine=image.affine[:3].tolist(),
        sums=[(float(numpy.sum(each)), float(numpy.sum(each * weights))) for each in flat])
`;

async function here(file: string): Promise<Seen> {
  const { size, frames, affine, data } = await readVolume(file);
  const inFrame = size[0] * size[1] * size[2];
  const sums = Array.from({ length: frames }, (_, frame): [number, number] => {
    let [sum, weighted] = [0, 0];
    for (let at = 0; at < inFrame; at += 1) {
      const value = data[frame * inFrame + at] || 0;
      sum += value;
      weighted += value * (at + 1);
    }
    return [sum, weighted];
  });
  return { size: [...size], frames, affine: affine.map((row) => [...row]), sums };
}

/** Sums in another order, and values that are scaled in 32 bits, are rounded differently. */
const near = (value: number, scale = 1) =>
  expect.closeTo(value, 6 - Math.ceil(Math.log10(Math.max(scale, 1))));

async function expectAsNibabel(files: readonly string[]): Promise<void> {
  for (const file of files) {
    const { affine, sums, ...rest } = inNibabel(file);
    const max = Math.max(...sums.flat().map(Math.abs));
    expect(await here(file), file).toEqual({
      ...rest,
      affine: affine.map((row) => row.map((value) => near(value, Math.abs(value)))),
      sums: sums.map((pair) => pair.map((value) => near(value, max))),
    });
  }
}

/** Files that nibabel is tested with. */
const tried = [
  'standard.nii.gz',
  'anatomical.nii',
  'functional.nii',
  'example4d.nii.gz',
  'example_nifti2.nii.gz',
  'reoriented_anat_moved.nii',
  'resampled_anat_moved.nii',
  'test.mgz',
].map((name) => path.join(nibabel ?? '', 'tests/data', name));

const brains = ['AICHAmc', 'brodmann', 'JHU-WhiteMatter-labels-2mm', 'inia19-t1-brain'].map((name) =>
  path.join(templates ?? '', `${name}.nii.gz`),
);

const make = `
import sys, itertools
from nibabel.orientations import axcodes2ornt, inv_ornt_aff
target = sys.argv[1]
files = []
def save(image, name):
    nibabel.save(image, target + '/' + name)
    files.append(name)
def values(shape, dtype):
    ramp = numpy.arange(numpy.prod(shape)).reshape(shape, order='F') % 251
    return (ramp - (100 if numpy.dtype(dtype).kind != 'u' else 0)).astype(dtype)
oblique = nibabel.affines.from_matvec(
    nibabel.eulerangles.euler2mat(0.3, -0.5, 1.1) @ numpy.diag([0.7, 1.3, -4.5]), [-31.5, 12.25, 99])
shape = (7, 5, 3)
for kind in (nibabel.Nifti1Image, nibabel.Nifti2Image):
    for order in '<>':
        for dtype in ('u1', 'i1', 'u2', 'i2', 'u4', 'i4', 'u8', 'i8', 'f4', 'f8'):
            header = kind.header_class(endianness=order)
            image = kind(values(shape, dtype), oblique, header, dtype=order + dtype)
            save(image, f'{kind.__name__}{"le" if order == "<" else "be"}{dtype}.nii.gz')
only = nibabel.Nifti1Image(values(shape, 'i2'), None)
only.set_qform(oblique, 1)
only.set_sform(None, 0)
save(only, 'qform.nii')
save(nibabel.Nifti1Image(values(shape, 'i2'), None), 'unplaced.nii')
scaled = nibabel.Nifti1Image(values(shape, 'f8') * 0.37 + 12, oblique)
scaled.set_data_dtype('i2')
save(scaled, 'scaled.nii.gz')
save(nibabel.Nifti1Pair(values(shape, 'f4'), oblique), 'pair.hdr')
save(nibabel.AnalyzeImage(values(shape, 'i2'), numpy.diag([-2, 3, 4, 1])), 'analyze.hdr')
save(nibabel.Nifti1Image(values(shape + (4,), 'i2'), oblique), 'time.nii.gz')
save(nibabel.Nifti1Image(values(shape + (1, 3), 'f4'), oblique), 'vectors.nii.gz')
save(nibabel.Nifti1Image(values((9, 8), 'i2'), oblique), 'plane.nii')
save(nibabel.MGHImage(values(shape, 'i2'), oblique), 'oblique.mgz')
save(nibabel.MGHImage(values(shape + (2,), 'f4'), oblique), 'frames.mgh')
for code in itertools.product((1, -1), repeat=3):
    for order in itertools.permutations(range(3)):
        affine = numpy.zeros((4, 4))
        affine[3, 3] = 1
        for axis, (along, sign) in enumerate(zip(order, code)):
            affine[along, axis] = sign * (axis + 1.5)
        affine[:3, 3] = [1, -2, 3]
        name = ''.join(str(along) for along in order) + ''.join('+' if sign > 0 else '-' for sign in code)
        save(nibabel.Nifti1Image(values(shape, 'u1'), affine), name + '.nii')
        turned = nibabel.Nifti1Image(values(shape, 'u1'), None)
        turned.set_qform(affine, 1)
        save(turned, name + 'q.nii')
ours = [target + '/' + name for name in files if not name.endswith('q.nii')]
print(json.dumps(dict(names=files, seen={file: seen(file) for file in sys.argv[2:] + ours})))
`;

/** A directory of files that nibabel has written, their names, and what it reads of these and of others by their paths. */
let made: {
  readonly directory: string;
  readonly names: readonly string[];
  readonly seen: Readonly<Record<string, Seen>>;
};
const root = temporary();
beforeAll(async () => {
  const { path: directory } = await root;
  const others = [...(nibabel ? tried : []), ...(templates ? brains : [])];
  // One process for all that does not need our own files: to load nibabel takes longer than to read them.
  const found = nibabel ? await python(look + make, directory, ...others) : '{"names": [], "seen": {}}';
  made = { directory, ...JSON.parse(found) };
});
afterAll(async () => (await root)[Symbol.asyncDispose]());

function inNibabel(file: string): Seen {
  const seen = made.seen[file];
  if (!seen) throw new Error(`nibabel was not asked for ${file}`);
  return seen;
}

test.skipIf(!nibabel)('The test files of nibabel are read as nibabel reads them', async () => {
  await expectAsNibabel(tried);
});

test.skipIf(!templates)('Templates and atlases are read as nibabel reads them', async () => {
  await expectAsNibabel(brains);
});

test.skipIf(!nibabel)(
  'Types, byte orders, 48 orientations, pairs and vectors that nibabel writes are read as nibabel reads them',
  async () => {
    const { directory, names } = made;
    expect(names.length).toBeGreaterThan(140);
    const turned = names.filter((name) => name.endsWith('q.nii'));
    await expectAsNibabel(
      names.filter((name) => !turned.includes(name)).map((name) => path.join(directory, name)),
    );
    // nibabel reads half turns less exactly than it writes them.
    for (const name of turned) {
      const [one, other] = await Promise.all(
        [name, name.replace('q.nii', '.nii')].map((each) => openVolume(path.join(directory, each))),
      );
      expect(one?.affine, name).toEqual(
        other?.affine.map((row) => row.map((value) => expect.closeTo(value, 4))),
      );
    }
    expect((await openVolume(path.join(directory, 'unplaced.nii'))).hasOrientation).toBe(false);
  },
);

const lookAgain = `
import sys
print(json.dumps([seen(file) for file in sys.argv[1:]]))
`;

test.skipIf(!nibabel)('Nibabel reads copies of these files in 48 orientations as the originals', async () => {
  const directory = await workspace();
  const { directory: origin, names } = made;
  const files = names.filter((name) => !/^plane|q\.nii$/.test(name)).map((name) => path.join(origin, name));
  const copies: string[] = [];
  for (const [at, file] of files.entries()) {
    const copy = path.join(directory, `${at}.nii${at % 2 === 0 ? '.gz' : ''}`);
    await writeNifti(copy, await readVolume(file));
    copies.push(copy);
  }
  const written: Seen[] = JSON.parse(await python(look + lookAgain, ...copies));
  for (const [at, copy] of copies.entries()) {
    const { affine, ...rest } = inNibabel(files[at] ?? '');
    const max = Math.max(...rest.sums.flat().map(Math.abs));
    expect(written[at], copy).toEqual({
      ...rest,
      affine: affine.map((row) => row.map((value) => near(value, Math.abs(value)))),
      sums: rest.sums.map((pair) => pair.map((value) => near(value, max))),
    });
  }
});

const forms = `
import sys
import nibabel, numpy
for file in sys.argv[1:]:
    header = nibabel.load(file).header
    q, s = header.get_qform(coded=True), header.get_sform(coded=True)
    assert q[1] == 1 and s[1] == 1, (file, q[1], s[1])
    assert numpy.allclose(q[0], s[0], atol=2e-3), (file, q[0], s[0])
print('alike')
`;

test.skipIf(!nibabel)('Nibabel reads the same sform and qform from a written file', async () => {
  const directory = await workspace();
  const { directory: origin, names } = made;
  const copies: string[] = [];
  for (const name of names.filter((each) => /^[012]{3}[+-]{3}\.nii|oblique|^time/.test(each))) {
    const copy = path.join(directory, `copy-${name}.nii`);
    await writeNifti(copy, await readVolume(path.join(origin, name)));
    copies.push(copy);
  }
  expect(copies.length).toBe(50);
  expect((await python(forms, ...copies)).trim()).toBe('alike');
});
