import path from 'node:path';
import { AppError, UsageError } from './errors.mjs';

/** Formats in which a result is written if its input has them; all others become NIfTI. */
const KEPT_FORMATS = ['.nii.gz', '.nii', '.mha', '.nrrd'];
const KNOWN_ENDINGS = [
  ...KEPT_FORMATS,
  '.mhd',
  '.nhdr',
  '.hdr',
  '.dcm',
  '.ima',
  '.gipl',
  '.mgz',
  '.mgh',
  '.vtk',
  '.hdf5',
];
/** Pixel files that belong to a header beside them, and are read through it. */
const COMPANIONS = { '.raw': ['.mhd', '.nhdr'], '.zraw': ['.mhd'], '.img': ['.hdr'] };

/**
 * The cases of one `--inputs` flag: `{ file, name, ending }` each, with names that are unique. The app has one
 * input channel, so a second group is refused rather than guessed at.
 */
export function listCases(groups, flag) {
  if (groups.length > 1) {
    throw new UsageError(
      `${flag} is given ${groups.length} times, but this app takes one channel: put all cases into one ${flag}.`,
    );
  }
  const files = groups[0].filter((file) => !isCompanion(file, groups[0]));
  const taken = new Set();
  return files.map((file) => {
    const { stem, ending } = splitName(file);
    let name = stem;
    for (let copy = 1; taken.has(name); copy += 1) name = `${stem}_${copy}`;
    taken.add(name);
    return { file, name, ending };
  });
}

/** The same number of cases on both sides, matched by their order. */
export function requireSameCount(cases, flag, inputs) {
  if (cases.length !== inputs.length) {
    throw new AppError(
      `${flag} has ${cases.length} file(s) for ${inputs.length} of --inputs: give one for each, in the same order.`,
    );
  }
  return cases;
}

function splitName(file) {
  const base = path.basename(path.resolve(file));
  const known = KNOWN_ENDINGS.find((ending) => base.toLowerCase().endsWith(ending));
  const stem = known === undefined ? base : base.slice(0, -known.length);
  return { stem: stem || base, ending: KEPT_FORMATS.includes(known) ? known : '.nii.gz' };
}

function isCompanion(file, group) {
  const ending = path.extname(file).toLowerCase();
  const headers = COMPANIONS[ending] ?? [];
  const stem = file.slice(0, -ending.length);
  return headers.some((header) => group.includes(stem + header));
}
